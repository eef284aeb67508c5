package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/client"
)

func cpCommand(a *app) *cobra.Command {
	var user string
	c := &cobra.Command{
		Use: "cp SRC DST", Short: "Copy a file or a directory into a sandbox, out of it, or from one to another", Args: cobra.ExactArgs(2),
		Long: "SRC or DST, or both, are SANDBOX:PATH; the other one is a local path, or - for stdin or stdout. A directory is copied with all files,\n" +
			"directories and links that are in it; sockets, pipes and devices are left out. If DST is a directory that exists, SRC is copied into it.\n" +
			"Files keep their permission bits. A local file is replaced when all of it has come; through a link or into a device it is written as it\n" +
			"comes. To - a directory goes as a tar archive of what is in it. Relative paths in a sandbox begin at the user's home, which SANDBOX: alone\n" +
			"is, too.",
		Example: "  space cp data.csv sbx_…:work/\n  space cp sbx_…:/home/user/out results\n  space cp sbx_…:log.txt - | grep error\n  space cp sbx_…:project - | gzip > project.tar.gz\n  echo hi | space cp - sbx_…:note.txt\n  space cp sbx_…:project sbx_…:",
	}
	c.Flags().StringVarP(&user, "user", "u", "", "with the rights of this user of the sandbox")
	n := connectionFlags(a, c)
	n.tokenFlags(c)
	c.ValidArgsFunction = n.completesPlaces
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := n.opensBoth(args[0], args[1]); err != nil {
			return err
		}
		ctx, _, stop := interruptible(cmd.Context())
		defer stop()
		p := startProgress(cmd.ErrOrStderr(), "copying "+args[0]+" to "+args[1])
		defer p.end()
		cp := copier{progress: p, in: cmd.InOrStdin(), out: cmd.OutOrStdout(), options: []client.FileOption{client.AsUser(user)}}
		return interrupted(ctx, cp.copy(ctx, n.inside, args[0], args[1]))
	}
	return c
}

// opensBoth refuses to copy between two sandboxes with a token, which opens one.
func (n *connection) opensBoth(src, dst string) error {
	from, _, out := remote(src)
	to, _, in := remote(dst)
	if !out || !in || from == to || !n.byToken() {
		return nil
	}
	return wrongly("use an API key, or copy in two steps, each with its sandbox's own token", "a sandbox token opens one sandbox, and %s and %s are two", from, to)
}

// copier copies between here and a sandbox.
type copier struct {
	plane    *client.Plane
	progress *progress
	in       io.Reader
	out      io.Writer
	options  []client.FileOption
}

// copy copies inside a sandbox that it has opened to it.
func (c copier) copy(ctx context.Context, inside func(context.Context, string, func(*client.Plane) error) error, src, dst string) error {
	from, fromPath, out := remote(src)
	to, toPath, in := remote(dst)
	if fromPath == "" {
		fromPath = "." // the home, as it is for what is copied there
	}
	switch {
	case !in && !out:
		return wrongly("write SANDBOX:PATH, for example sbx_…:/tmp/file", "neither %q nor %q is in a sandbox", src, dst)
	case in && out:
		return inside(ctx, from, func(source *client.Plane) error {
			return inside(ctx, to, func(p *client.Plane) error {
				c.plane = p
				return c.across(ctx, source, fromPath, toPath, from == to)
			})
		})
	case out:
		return inside(ctx, from, func(p *client.Plane) error {
			c.plane = p
			return c.download(ctx, fromPath, dst)
		})
	}
	if src != "-" {
		if _, err := os.Stat(src); err != nil { // before anybody is asked for anything
			return err
		}
	}
	return inside(ctx, to, func(p *client.Plane) error {
		c.plane = p
		return c.upload(ctx, src, toPath)
	})
}

// across copies from another sandbox, or from another place of the same one, as it's read; nothing is stored here.
func (c copier) across(ctx context.Context, source *client.Plane, src, dst string, same bool) error {
	there := c
	there.plane = source
	e, err := there.look(ctx, src)
	if err != nil {
		return err
	}
	if dst, err = c.into(ctx, dst, baseOf(src, e)); err != nil {
		return err
	}
	if same {
		if err := c.apart(ctx, e, dst); err != nil {
			return err
		}
	}
	if e.Type == "directory" {
		r, err := source.ReadArchive(ctx, src, c.options...)
		if err != nil {
			return err
		}
		defer r.Close()
		return c.plane.WriteArchive(ctx, dst, c.progress.count(r, 0), c.options...)
	}
	mode, err := permissions(e)
	if err != nil {
		return err
	}
	r, err := source.ReadFile(ctx, src, 0, c.options...)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = c.plane.WriteFile(ctx, dst, c.progress.count(r, e.Size), append(c.options, withMode(mode))...)
	return err
}

// apart refuses to copy something into itself: what is written would be read again, until the disk is full.
func (c copier) apart(ctx context.Context, e client.FileEntry, dst string) error {
	if !path.IsAbs(dst) {
		home, err := c.plane.StatFile(ctx, ".", c.options...)
		if err != nil {
			return err
		}
		dst = path.Join(home.Path, dst)
	}
	if dst = path.Clean(dst); dst != e.Path && !strings.HasPrefix(dst, strings.TrimSuffix(e.Path, "/")+"/") {
		return nil
	}
	return ErrorWithHint("invalid_request", "copy it to a place beside it", "%s can't be copied to %s, which is in it or is itself", e.Path, dst)
}

func withMode(mode fs.FileMode) client.FileOption {
	return client.WithMode(fmt.Sprintf("%04o", mode.Perm()))
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
	options := c.options
	if info.Mode().IsRegular() { // a pipe's mode says nothing about what comes out of it
		options = append(options, withMode(info.Mode()))
	}
	_, err = c.plane.WriteFile(ctx, dst, c.progress.count(f, info.Size()), options...)
	return err
}

// into is where something is copied to: below the target, if that is a directory.
func (c copier) into(ctx context.Context, dst, name string) (string, error) {
	if dst == "" || strings.HasSuffix(dst, "/") {
		return path.Join(dst, name), nil
	}
	e, err := c.look(ctx, dst)
	switch {
	case isMissing(err):
		return dst, nil
	case err != nil:
		return "", err
	case e.Type == "directory":
		return path.Join(dst, name), nil
	default:
		return dst, nil
	}
}

// maxLinks bounds the links that are followed to one file, as the kernel does.
const maxLinks = 40

// look says what is at a path in the sandbox, through links; of a link that leads nowhere, what the link is.
func (c copier) look(ctx context.Context, name string) (client.FileEntry, error) {
	e, err := c.plane.StatFile(ctx, name, c.options...)
	for range maxLinks {
		if err != nil || e.Type != "symlink" || e.Target == nil {
			return e, err
		}
		if name = *e.Target; !path.IsAbs(name) {
			name = path.Join(path.Dir(e.Path), name)
		}
		next, err := c.plane.StatFile(ctx, name, c.options...)
		if isMissing(err) {
			return e, nil
		}
		if err != nil {
			return e, err
		}
		e = next
	}
	return e, nil
}

func isMissing(err error) bool {
	var refused *client.Error
	return errors.As(err, &refused) && refused.Code == "not_found"
}

// permissions are the bits that a copy of a sandbox's file gets, as far as the umask lets it.
func permissions(e client.FileEntry) (fs.FileMode, error) {
	if e.Type == "symlink" { // its own say nothing
		return 0o644, nil
	}
	mode, err := strconv.ParseUint(e.Mode, 8, 12)
	if err != nil {
		return 0, fmt.Errorf("read the mode of %s: %w", e.Path, err)
	}
	return fs.FileMode(mode).Perm(), nil
}

func (c copier) download(ctx context.Context, src, dst string) error {
	e, err := c.look(ctx, src)
	if err != nil {
		return err
	}
	if dst == "-" {
		return c.print(ctx, src, e)
	}
	if info, err := os.Stat(dst); err == nil && info.IsDir() {
		dst = filepath.Join(dst, baseOf(src, e))
	}
	if e.Type == "directory" {
		return c.downloadDirectory(ctx, src, dst)
	}
	return c.downloadTo(ctx, src, dst, e)
}

// print writes a file to stdout as it is, and a directory as an archive of what is in it.
func (c copier) print(ctx context.Context, src string, e client.FileEntry) error {
	if e.Type != "directory" {
		out := c.out
		if isTerminal(out) { // the same one, it may be
			out = c.progress.before(out)
		}
		return c.downloadFile(ctx, src, out, e.Size)
	}
	if isTerminal(c.out) {
		return wrongly("send it on, for example to 'tar tv'", "%s is a directory, whose tar archive is nothing for a terminal", src)
	}
	r, err := c.plane.ReadArchive(ctx, src, c.options...)
	if err != nil {
		return err
	}
	defer r.Close()
	if _, err := io.Copy(c.out, c.progress.count(r, 0)); err != nil {
		return fmt.Errorf("read %s: %w", src, err)
	}
	return nil
}

// baseOf is the name that a copy gets: the last one of what was asked for, unless that is none (., the home).
func baseOf(src string, e client.FileEntry) string {
	if base := path.Base(src); src != "" && base != "." && base != ".." {
		return base
	}
	return path.Base(e.Path)
}

// downloadTo writes beside a file and renames at the end: what was there stays until all is here. What isn't a file (a device, a pipe, a link
// to either or to a file) is written to and stays what it is.
func (c copier) downloadTo(ctx context.Context, src, dst string, e client.FileEntry) (err error) {
	perm, err := permissions(e)
	if err != nil {
		return err
	}
	if info, err := os.Lstat(dst); err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
		if err != nil {
			return err
		}
		return errors.Join(c.downloadFile(ctx, src, f, e.Size), f.Close())
	}
	temp := filepath.Join(filepath.Dir(dst), ".space-cp-"+rand.Text())
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(temp)
		}
	}()
	if err := errors.Join(c.downloadFile(ctx, src, f, e.Size), f.Close()); err != nil {
		return err
	}
	return os.Rename(temp, dst)
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
