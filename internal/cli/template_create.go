package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/client"
)

// maxDefinition bounds a template's definition, in bytes.
const maxDefinition = 64 << 10

func templateCreateCommand(n *connection) *cobra.Command {
	f := &templateFlags{}
	c := &cobra.Command{
		Use: "create NAME", Short: "Build a template from an image, an archive, a Debian or another template, and wait", Args: cobra.ExactArgs(1),
		Long: "Builds a template. Its source is one of the flags. The steps are --run, --copy, --env, --workdir and --user in the order in which they stand,\n" +
			"and mean what they mean in a Dockerfile; commands run in a machine of their own, without a network. With --file everything is read from\n" +
			"a JSON document as the API takes it, and flags come on top, steps after those of the file. What --auto-wake, --idle, --on-idle and --snapshot-… say is\n" +
			"what its sandboxes do by themselves that say nothing else; given again with the same content, it's changed without a build.",
		Example: "  space template create alpine --image registry.example/alpine:3\n" +
			"  space template create mine --from base --user root --run 'echo hello > /etc/motd' --user user --env COLOUR=blue\n" +
			"  space template create web --from base --user root --workdir /srv --copy site:www --run 'chmod -R a+rX www'\n" +
			"  space template create app --image registry.example/app:1 --registry-auth ~/.docker/config.json\n" +
			"  docker save app | space template create app --archive -",
	}
	f.add(c)
	c.ValidArgsFunction = n.completes(false, words[string]())
	n.completesFlag(c, "from", usableTemplates)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		cl, err := n.client()
		if err != nil {
			return err
		}
		in, err := f.definition(cmd.Context(), cl, args[0], cmd.InOrStdin(), cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		if life, err := f.lifecycle(cmd, client.Lifecycle{}); err != nil {
			return err
		} else if life != nil {
			in.Lifecycle = life
		}
		op, err := cl.BeginCreateTemplate(cmd.Context(), in)
		if err != nil {
			return err
		}
		return n.showBuild(cmd, cl, op, args[0], !f.quiet)
	}
	return c
}

// templateFlags say what a template is made of.
type templateFlags struct {
	file, image, archive, rootfs, from, debian string
	auth                                       string
	packages, tags                             []string
	steps                                      templateSteps
	start, ready                               string
	quiet                                      bool
	vcpus, memory, disk                        int
	noCache                                    bool
	lifecycleFlags
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
	s.Var(f.steps.flag("COMMAND", runStep), "run", "step: a shell command; may be repeated, as all steps may")
	s.Var(f.steps.flag("SRC:DST", f.steps.copyStep), "copy", "step: copy a file from here, or what is in a directory; SRC:DST:OWNER writes it as somebody else than root")
	s.VarP(f.steps.flag("NAME=VALUE", envStep), "env", "e", "step: a variable for what follows and for sessions")
	s.VarP(f.steps.flag("DIRECTORY", f.steps.workdirStep), "workdir", "w", "step: the directory for what follows and for sessions")
	s.VarP(f.steps.flag("USER", userStep), "user", "u", "step: the user for what follows and for sessions")
	s.BoolVarP(&f.quiet, "quiet", "q", false, "don't show what the build says")
	s.StringSliceVar(&f.tags, "tag", nil, "tag; may be repeated")
	s.StringVar(&f.start, "start", "", "command that runs in every sandbox")
	s.StringVar(&f.ready, "ready", "", "command that must succeed before the snapshot is taken")
	numberVar(s, &f.vcpus, "vcpus", "", "vCPUs of its sandboxes", 1, maxVCPUs)
	numberVar(s, &f.memory, "memory-mb", "", "memory of its sandboxes, in MiB", minMemoryMiB, maxMemoryMiB)
	numberVar(s, &f.disk, "disk-mb", "", "disk of its sandboxes, in MiB", minDiskMiB, maxDiskMiB)
	s.BoolVar(&f.noCache, "no-cache", false, "build every layer anew")
	f.lifecycleFlags.add(c)
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
	set(&in.Vcpus, f.vcpus)
	set(&in.MemoryMb, f.memory)
	set(&in.DiskMb, f.disk)
	set(&in.NoCache, f.noCache)
	if f.debian != "" {
		in.Debian = &struct {
			Packages *[]string `json:"packages,omitempty"`
			Suite    string    `json:"suite"`
		}{Suite: f.debian}
		if len(f.packages) > 0 {
			in.Debian.Packages = &f.packages
		}
	}
	if len(f.tags) > 0 {
		in.Tags = &f.tags
	}
	if err := f.addAuth(&in, stdin); err != nil {
		return in, err
	}
	if err := f.steps.addTo(ctx, c, &in, tell); err != nil {
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
	if err := d.Decode(&in); isLocal(err) {
		return in, err
	} else if err != nil {
		return in, wrongly("it's a JSON document, TemplateCreate in /openapi.yaml; a Dockerfile isn't taken: write its FROM as --image or --from, and its steps as --run, --copy, --env, --workdir and --user", "read the definition %s: %v", f.file, err)
	}
	return in, nil
}

// upload sends a file, if one is named, and sets the field to the upload.
func upload(ctx context.Context, c *client.Client, file string, stdin io.Reader, tell io.Writer, field **string) (err error) {
	var id string
	switch file {
	case "":
		return nil
	case "-":
		p := startProgress(tell, "uploading stdin")
		defer p.end()
		id, err = c.Upload(ctx, p.count(stdin, 0))
	default:
		id, err = send(ctx, c, file, tell, func(w io.Writer) error { return writeFile(w, file) })
	}
	*field = &id
	return err
}

func writeFile(w io.Writer, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
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
