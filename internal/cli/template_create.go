package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

// maxDefinition bounds a template's definition, in bytes.
const maxDefinition = 64 << 10

func templateCreateCommand(n *connection) *cobra.Command {
	f := &templateFlags{}
	c := &cobra.Command{
		Use: "create NAME", Short: "Build a template from an image, an archive, a Debian or another template, and wait", Args: cobra.ExactArgs(1),
		Long: "Builds a template. Its source is one of the flags; steps are run in a machine of their own, without a network, in the order given.\n" +
			"With --file everything is read from a JSON document as the API takes it, and flags come on top.",
		Example: "  space template create alpine --image registry.example/alpine:3\n" +
			"  space template create mine --from base --run-as root --run 'echo hello > /etc/motd' --env COLOUR=blue\n" +
			"  space template create app --image registry.example/app:1 --registry-auth ~/.docker/config.json\n" +
			"  docker save app | space template create app --archive -",
	}
	f.add(c)
	c.ValidArgsFunction = n.completes(false, words())
	n.completesFlag(c, "from", templateNames)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		cl, err := n.client()
		if err != nil {
			return err
		}
		in, err := f.definition(cmd.Context(), cl, args[0], cmd.InOrStdin(), cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		op, err := cl.BeginCreateTemplate(cmd.Context(), in)
		if err != nil {
			return err
		}
		t, err := awaitBuild(cmd.Context(), cl, op, args[0], cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		return n.showTemplate(cmd.OutOrStdout(), t)
	}
	return c
}

// templateFlags say what a template is made of.
type templateFlags struct {
	file, image, archive, rootfs, from, debian string
	auth                                       string
	packages, run, env, tags                   []string
	start, ready, user, runAs, workdir         string
	vcpus, memory, disk                        int
	noCache                                    bool
}

func (f *templateFlags) add(c *cobra.Command) {
	s := c.Flags()
	s.StringVarP(&f.file, "file", "f", "", "JSON document with the whole definition; - for stdin")
	s.StringVar(&f.image, "image", "", "OCI image reference")
	s.StringVar(&f.auth, "registry-auth", "", "file with a login for the image's registry, or - for stdin: a docker config.json, or USERNAME:PASSWORD, or a token")
	s.StringVar(&f.archive, "archive", "", "OCI layout or 'docker save' archive; - for stdin")
	s.StringVar(&f.rootfs, "rootfs", "", "root file system as a tar archive; - for stdin")
	s.StringVar(&f.from, "from", "", "another template")
	s.StringVar(&f.debian, "debian", "", "a suite of Debian, for example bookworm")
	s.StringSliceVar(&f.packages, "package", nil, "Debian package to install, with --debian; may be repeated")
	s.StringArrayVar(&f.run, "run", nil, "step: a shell command; may be repeated")
	s.StringVar(&f.runAs, "run-as", "", "user as whom the steps are run, for example root; else the source's default user")
	s.StringArrayVarP(&f.env, "env", "e", nil, "NAME=VALUE for all sessions; may be repeated")
	s.StringSliceVar(&f.tags, "tag", nil, "tag; may be repeated")
	s.StringVar(&f.start, "start", "", "command that runs in every sandbox")
	s.StringVar(&f.ready, "ready", "", "command that must succeed before the snapshot is taken")
	s.StringVarP(&f.user, "user", "u", "", "default user")
	s.StringVarP(&f.workdir, "workdir", "w", "", "default directory")
	s.IntVar(&f.vcpus, "vcpus", 0, "vCPUs of its sandboxes")
	s.IntVar(&f.memory, "memory-mb", 0, "memory of its sandboxes, in MiB")
	s.IntVar(&f.disk, "disk-mb", 0, "disk of its sandboxes, in MiB")
	s.BoolVar(&f.noCache, "no-cache", false, "build every layer anew")
}

// definition is the document that the flags make, with uploads made on the way.
func (f *templateFlags) definition(ctx context.Context, c *client.Client, name string, stdin io.Reader, tell io.Writer) (client.TemplateCreate, error) {
	in, err := f.read(stdin)
	if err != nil {
		return in, err
	}
	in.Name = &name
	set(&in.Image, f.image)
	set(&in.Template, f.from)
	set(&in.StartCommand, f.start)
	set(&in.ReadyCheck, f.ready)
	set(&in.User, f.user)
	set(&in.Workdir, f.workdir)
	set(&in.Vcpus, f.vcpus)
	set(&in.MemoryMb, f.memory)
	set(&in.DiskMb, f.disk)
	set(&in.NoCache, f.noCache)
	if f.debian != "" {
		in.Debian = &struct {
			Packages *[]string `json:"packages,omitempty"`
			Suite    string    `json:"suite"`
		}{&f.packages, f.debian}
	}
	if len(f.tags) > 0 {
		in.Tags = &f.tags
	}
	if err := f.addEnvironment(&in); err != nil {
		return in, err
	}
	f.addSteps(&in)
	if err := f.addAuth(&in, stdin); err != nil {
		return in, err
	}
	return in, errors.Join(upload(ctx, c, f.archive, stdin, tell, &in.Archive), upload(ctx, c, f.rootfs, stdin, tell, &in.Rootfs))
}

// read reads the definition that a file gives.
func (f *templateFlags) read(stdin io.Reader) (in client.TemplateCreate, err error) {
	if f.file == "" {
		return in, nil
	}
	r, err := opened(f.file, stdin)
	if err != nil {
		return in, err
	}
	defer r.Close()
	d := json.NewDecoder(io.LimitReader(r, maxDefinition))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return in, ErrorWithHint("usage", "see TemplateCreate in /openapi.yaml", "read the definition %s: %v", f.file, err)
	}
	return in, nil
}

func (f *templateFlags) addEnvironment(in *client.TemplateCreate) error {
	if len(f.env) == 0 {
		return nil
	}
	env := gen.Environment{}
	for _, e := range f.env {
		name, value, ok := strings.Cut(e, "=")
		if !ok || name == "" {
			return ErrorWithHint("usage", "write NAME=VALUE", "--env %q has no name or no value", e)
		}
		env[name] = value
	}
	in.Env = &env
	return nil
}

func (f *templateFlags) addSteps(in *client.TemplateCreate) {
	if len(f.run) == 0 {
		return
	}
	var steps []client.TemplateStep
	if in.Steps != nil {
		steps = *in.Steps
	}
	if f.runAs != "" {
		steps = append(steps, client.TemplateStep{User: &f.runAs})
	}
	for _, r := range f.run {
		steps = append(steps, client.TemplateStep{Run: &r})
	}
	in.Steps = &steps
}

// upload sends a file, if one is named, and sets the field to the upload.
func upload(ctx context.Context, c *client.Client, path string, stdin io.Reader, tell io.Writer, field **string) error {
	if path == "" {
		return nil
	}
	r, err := opened(path, stdin)
	if err != nil {
		return err
	}
	defer r.Close()
	p := startProgress(tell, "uploading "+path)
	defer p.end()
	id, err := c.Upload(ctx, p.count(r, 0))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	*field = &id
	return nil
}

// opened opens a file; - is stdin.
func opened(path string, stdin io.Reader) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(stdin), nil
	}
	return os.Open(path)
}

// set sets a field of a document unless the value is empty.
func set[T comparable](field **T, value T) {
	if value != *new(T) {
		*field = &value
	}
}

// step is the step that a line of a log belongs to.
func step(l client.LogLine) string {
	if l.Step == nil {
		return "0"
	}
	return strconv.Itoa(*l.Step)
}
