package cli

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/client"
)

func cpCommand(a *app) *cobra.Command {
	var user string
	c := &cobra.Command{
		Use: "cp SRC DST", Short: "Copy a file or a directory into a sandbox or out of it", Args: cobra.ExactArgs(2),
		Long: "One of SRC and DST is SANDBOX:PATH, the other one a local path, or - for stdin or stdout. A directory is copied with all that is in\n" +
			"it; if DST is a directory that exists, SRC is copied into it. Relative paths in a sandbox begin at the user's home.",
		Example: "  space cp data.csv sbx_…:work/\n  space cp sbx_…:/home/user/out results\n  space cp sbx_…:log.txt - | grep error\n  echo hi | space cp - sbx_…:note.txt",
	}
	c.Flags().StringVarP(&user, "user", "u", "", "with the rights of this user of the sandbox")
	n := connectionFlags(a, c)
	c.ValidArgsFunction = n.completesPlaces
	c.RunE = func(cmd *cobra.Command, args []string) error {
		cl, err := n.client()
		if err != nil {
			return err
		}
		ctx, _, stop := interruptible(cmd.Context())
		defer stop()
		p := startProgress(progressBeside(cmd.ErrOrStderr(), cmd.OutOrStdout(), args[1] == "-"), "copying "+args[0]+" to "+args[1])
		defer p.end()
		cp := copier{progress: p, in: cmd.InOrStdin(), out: cmd.OutOrStdout(), options: []client.FileOption{client.AsUser(user)}}
		return interrupted(ctx, cp.copy(ctx, cl, args[0], args[1]))
	}
	return c
}

// copier copies between here and a sandbox.
type copier struct {
	plane    *client.Plane
	progress *progress
	in       io.Reader
	out      io.Writer
	options  []client.FileOption
}

// progressBeside is where progress is shown: nowhere if what is copied goes to the same terminal.
func progressBeside(stderr, stdout io.Writer, used bool) io.Writer {
	if used && isTerminal(stdout) {
		return io.Discard
	}
	return stderr
}

func (c copier) copy(ctx context.Context, cl *client.Client, src, dst string) error {
	from, fromPath, out := remote(src)
	to, toPath, in := remote(dst)
	if in == out {
		return exitCode{exitUsage, &cliError{code: "usage", message: "one of the two must be in a sandbox", hint: "write SANDBOX:PATH, for example sbx_…:/tmp/file"}}
	}
	var err error
	if c.plane, err = cl.Plane(ctx, from+to); err != nil {
		return err
	}
	if out {
		return c.download(ctx, fromPath, dst)
	}
	return c.upload(ctx, src, toPath)
}

// sandboxPrefix is how the ids of sandboxes begin.
const sandboxPrefix = string(space.PrefixSandbox) + "_"

// remote splits SANDBOX:PATH.
func remote(s string) (sandbox, file string, ok bool) {
	sandbox, file, ok = strings.Cut(s, ":")
	if !ok || !strings.HasPrefix(sandbox, sandboxPrefix) {
		return "", "", false
	}
	return sandbox, file, true
}

func (c copier) upload(ctx context.Context, src, dst string) error {
	if src == "-" {
		_, err := c.plane.WriteFile(ctx, dst, c.progress.count(c.in, 0), c.options...)
		return err
	}
	info, err := os.Stat(src)
	if err != nil {
		return err
	}
	if dst, err = c.into(ctx, dst, filepath.Base(src)); err != nil {
		return err
	}
	if info.IsDir() {
		return c.uploadDirectory(ctx, src, dst)
	}
	f, err := os.Open(src)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = c.plane.WriteFile(ctx, dst, c.progress.count(f, info.Size()), append(c.options, client.WithMode(fmt.Sprintf("%04o", info.Mode().Perm())))...)
	return err
}

// into is where something is copied to: below the target, if that is a directory.
func (c copier) into(ctx context.Context, dst, name string) (string, error) {
	if dst == "" || strings.HasSuffix(dst, "/") {
		return path.Join(dst, name), nil
	}
	e, err := c.plane.StatFile(ctx, dst, c.options...)
	var refused *client.Error
	switch {
	case errors.As(err, &refused) && refused.Code == "not_found":
		return dst, nil
	case err != nil:
		return "", err
	case e.Type == "directory":
		return path.Join(dst, name), nil
	default:
		return dst, nil
	}
}

// uploadDirectory sends a directory as an archive, as it is written.
func (c copier) uploadDirectory(ctx context.Context, src, dst string) error {
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := pack(src, w)
		w.CloseWithError(err)
		packed <- err
	}()
	err := c.plane.WriteArchive(ctx, dst, c.progress.count(r, 0), c.options...)
	r.CloseWithError(io.ErrClosedPipe)
	if perr := <-packed; perr != nil && !errors.Is(perr, io.ErrClosedPipe) {
		return perr
	}
	return err
}

// pack writes a directory's contents as a tar archive.
func pack(dir string, to io.Writer) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	w := tar.NewWriter(to)
	if err := w.AddFS(root.FS()); err != nil {
		return fmt.Errorf("pack %s: %w", dir, err)
	}
	return w.Close()
}

func (c copier) download(ctx context.Context, src, dst string) error {
	if dst == "-" {
		return c.downloadFile(ctx, src, c.out, 0)
	}
	e, err := c.plane.StatFile(ctx, src, c.options...)
	if err != nil {
		return err
	}
	if info, err := os.Stat(dst); err == nil && info.IsDir() {
		dst = filepath.Join(dst, path.Base(e.Path))
	}
	if e.Type == "directory" {
		return c.downloadDirectory(ctx, src, dst)
	}
	return c.downloadTo(ctx, src, dst, e.Size)
}

// downloadTo writes beside the target and renames at the end: what was there stays until all is here.
func (c copier) downloadTo(ctx context.Context, src, dst string, size int64) error {
	f, err := os.CreateTemp(filepath.Dir(dst), "."+filepath.Base(dst)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = errors.Join(c.downloadFile(ctx, src, f, size), f.Chmod(0o644), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), dst)
}

func (c copier) downloadFile(ctx context.Context, src string, to io.Writer, size int64) error {
	r, err := c.plane.ReadFile(ctx, src, 0, c.options...)
	if err != nil {
		return err
	}
	defer r.Close()
	if _, err := io.Copy(to, c.progress.count(r, size)); err != nil {
		return fmt.Errorf("read %s: %w", src, err)
	}
	return nil
}

func (c copier) downloadDirectory(ctx context.Context, src, dst string) error {
	r, err := c.plane.ReadArchive(ctx, src, c.options...)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := os.MkdirAll(dst, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dst)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := unpack(tar.NewReader(c.progress.count(r, 0)), root); err != nil {
		return fmt.Errorf("unpack %s: %w", src, err)
	}
	return nil
}

// unpack writes an archive beneath a root, which nothing in it can leave: a sandbox isn't trusted. Owners, devices and special bits stay there.
func unpack(r *tar.Reader, root *os.Root) error {
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := unpackEntry(r, h, root); err != nil {
			return fmt.Errorf("%q: %w", h.Name, err)
		}
	}
}

func unpackEntry(r io.Reader, h *tar.Header, root *os.Root) error {
	name := path.Clean(h.Name)
	if name == "." {
		return nil
	}
	mode := fs.FileMode(h.Mode).Perm()
	switch h.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, mode|0o700)
	case tar.TypeSymlink:
		if err := root.RemoveAll(name); err != nil {
			return err
		}
		return root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		return root.Link(path.Clean(h.Linkname), name)
	case tar.TypeReg:
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		f, err := root.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, r)
		return errors.Join(err, f.Close())
	default:
		return nil // devices, sockets and pipes are nothing to copy
	}
}
