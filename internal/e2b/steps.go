package e2b

import (
	"fmt"
	"net/http"
	"path"
	"regexp"
	"strings"

	space "github.com/space-platform/space"
	api "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

// buildOrder is what an SDK has built. What it says of caches is heeded as far as it asks for none.
type buildOrder struct {
	FromImage    string        `json:"fromImage"`
	FromTemplate string        `json:"fromTemplate"`
	Registry     *registryAuth `json:"fromImageRegistry"`
	Steps        []buildStep   `json:"steps"`
	Force        bool          `json:"force"`
	StartCmd     string        `json:"startCmd"`
	ReadyCmd     string        `json:"readyCmd"`
}

type registryAuth struct {
	Type     string `json:"type"`
	Username string `json:"username"`
	Password string `json:"password"`
}

type buildStep struct {
	Type      string   `json:"type"`
	Args      []string `json:"args"`
	FilesHash string   `json:"filesHash"`
	Force     bool     `json:"force"`
}

const (
	// vendorImage is the image that the SDKs build from unless they're told another one. Here it's the template base.
	vendorImage = "e2bdev/base"
	baseName    = "base"
	// staging is where copied files are until they're put in their places.
	staging = "/.e2b-copy"
	// root does what builds do for themselves.
	root = "root"
)

// recipe makes the platform's steps of an SDK's. One of them may take several.
type recipe struct {
	steps   []client.TemplateStep
	means   []meaning // of each of them
	step    int       // the SDK's that is being written
	user    string
	workdir string
	uploads map[string]string
}

// meaning is what a step of the platform's is to the SDK's user.
type meaning struct {
	Origin int    `json:"origin"`         // the SDK's step, from 1; 0: what builds do for themselves before
	Says   string `json:"says,omitempty"` // what the log says when it begins; "": nothing
}

// add adds a step of the platform's. Where several do what one step of the SDK's says, only one of them has it said.
func (c *recipe) add(says string, s client.TemplateStep) {
	c.steps, c.means = append(c.steps, s), append(c.means, meaning{c.step, says})
}

func (c *recipe) run(says, script string) { c.add(says, client.TemplateStep{Run: &script}) }

// set adds a step that only changes what holds for the next ones.
func (c *recipe) set(s client.TemplateStep) { c.add("", s) }

// as writes steps of another user, after which it's the one before again.
func (c *recipe) as(user string, write func()) {
	if user == c.user {
		write()
		return
	}
	before := c.user
	c.set(client.TemplateStep{User: &user})
	write()
	c.set(client.TemplateStep{User: &before})
}

// compile makes the platform's steps. The first user and directory are those of what is built upon; no user if that doesn't say.
func compile(steps []buildStep, user, workdir string, uploads map[string]string) (*recipe, error) {
	c := &recipe{user: user, workdir: workdir, uploads: uploads}
	if user == "" {
		c.provide()
	}
	for i, s := range steps {
		c.step = i + 1
		if err := c.write(s); err != nil {
			return nil, refuse(http.StatusBadRequest, "step %d (%s): %v", i+1, space.Clip(s.Type), err)
		}
	}
	return c, nil
}

// usual is the user that every template of E2B has, and whose commands are those that name none.
const usual = "user"

// provide sees to it that what is built upon has that user.
func (c *recipe) provide() {
	first, user := root, usual
	c.set(client.TemplateStep{User: &first})
	c.run("", "id -u "+usual+" >/dev/null 2>&1 || useradd --create-home --shell /bin/bash "+usual+" || adduser -D "+usual)
	c.user, c.workdir = usual, "/home/"+usual
	c.set(client.TemplateStep{User: &user})
}

func (c *recipe) write(s buildStep) error {
	switch arg := argument(s.Args); strings.ToUpper(s.Type) {
	case "RUN":
		if arg(0) == "" {
			return fmt.Errorf("it has no command")
		}
		user := c.user
		if arg(1) != "" {
			user = arg(1)
		}
		c.as(user, func() { c.run("run "+firstLine(arg(0)), bash(arg(0))) })
	case "COPY":
		return c.copy(s)
	case "ENV":
		if len(s.Args) == 0 || len(s.Args)%2 != 0 {
			return fmt.Errorf("it has %d arguments, which aren't pairs of name and value", len(s.Args))
		}
		env := client.Environment{}
		for i := 0; i < len(s.Args); i += 2 {
			env[s.Args[i]] = s.Args[i+1]
		}
		c.set(client.TemplateStep{Env: &env})
	case "WORKDIR":
		if arg(0) == "" {
			return fmt.Errorf("it has no path")
		}
		c.workdir = path.Join(c.workdir, strings.TrimPrefix(arg(0), "~/"))
		if path.IsAbs(arg(0)) {
			c.workdir = path.Clean(arg(0))
		}
		dir := c.workdir
		c.set(client.TemplateStep{Workdir: &dir})
	case "USER":
		return c.become(arg(0), arg(1) == "true")
	default:
		return fmt.Errorf("there's no such kind of step; there are RUN, COPY, ENV, WORKDIR and USER")
	}
	return nil
}

// argument returns what stands at a place, "" for nothing.
func argument(args []string) func(int) string {
	return func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}
}

// userName is what can be a user of a guest, with a group if there's one.
var userName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?$`)

// become changes the user of later steps, who is made if there's none of that name.
func (c *recipe) become(user string, sudo bool) error {
	if !userName.MatchString(user) {
		return fmt.Errorf("%q can't be a user", space.Clip(user))
	}
	name, _, _ := strings.Cut(user, ":")
	script := "id -u " + name + " >/dev/null 2>&1 || useradd --create-home --shell /bin/bash " + name
	if sudo {
		script += "; mkdir -p /etc/sudoers.d && echo '" + name + " ALL=(ALL:ALL) NOPASSWD: ALL' >/etc/sudoers.d/" + name + " && chmod 0440 /etc/sudoers.d/" + name
	}
	if name != root {
		c.as(root, func() { c.run("user "+user, script) })
	}
	c.user = user
	c.set(client.TemplateStep{User: &user})
	return nil
}

// octal is what can be a mode.
var octal = regexp.MustCompile(`^[0-7]{3,5}$`)

// copy unpacks the files of a step beside, and puts them where a Dockerfile's COPY would.
func (c *recipe) copy(s buildStep) error {
	arg := argument(s.Args)
	from, to, owner, mode := arg(0), arg(1), arg(2), arg(3)
	upload, ok := c.uploads[s.FilesHash]
	switch {
	case from == "" || to == "":
		return fmt.Errorf("it has no source or no destination")
	case !ok:
		return fmt.Errorf("its files weren't uploaded")
	case owner != "" && !userName.MatchString(owner):
		return fmt.Errorf("%q can't be a user", space.Clip(owner))
	case mode != "" && !octal.MatchString(mode):
		return fmt.Errorf("%q can't be a mode", space.Clip(mode))
	}
	if owner == "" {
		owner = c.user
	}
	says := "copy " + firstLine(from) + " to " + firstLine(to)
	to = strings.TrimPrefix(to, "~/")
	place := staging
	c.as(root, func() {
		step := client.TemplateStep{}
		step.Copy = &struct {
			Owner  *string `json:"owner,omitempty"`
			To     string  `json:"to"`
			Upload string  `json:"upload"`
		}{&owner, place, upload}
		c.add(says, step)
		c.run("", placement(place, from, to, mode))
	})
	return nil
}

// placement is the script that puts unpacked files in their places: a directory's content into the destination, a file to it, or into it if it's a
// directory; what a pattern matches into it.
func placement(place, from, to, mode string) string {
	from = path.Clean(from)
	script := []string{"set -e", "cd_to=$PWD", "to=" + quote(to), "cd " + quote(place)}
	if mode != "" {
		script = append(script, "chmod -R "+mode+" .", "chmod -R u+X .")
	}
	script = append(script,
		`case "$to" in /*) ;; *) to="$cd_to/$to" ;; esac`,
		"if [ -d "+quote(from)+" ] && [ ! -L "+quote(from)+" ]; then",
		`mkdir -p "$to"; cp -a `+quote(from+"/.")+` "$to/"`,
		"elif [ -e "+quote(from)+" ]; then",
		`case "$to" in */) mkdir -p "$to" ;; *) mkdir -p "$(dirname "$to")" ;; esac; cp -a `+quote(from)+` "$to"`,
		"else",
		`mkdir -p "$to"; for f in `+pattern(from)+`; do cp -a "$f" "$to/"; done`,
		"fi", "cd /", "rm -rf "+quote(place))
	return strings.Join(script, "\n")
}

// quote writes a word for a shell.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// pattern writes a word for a shell in which * and ? match.
func pattern(word string) string {
	return strings.NewReplacer("*", "'*'", "?", "'?'").Replace("'" + strings.ReplaceAll(word, "'", `'\''`) + "'")
}

// bash has a command run by bash, as in E2B's builds, where the image has one.
func bash(command string) string {
	return "if [ -x /bin/bash ]; then exec /bin/bash -c " + quote(command) + "; fi\n" + command
}

// maxShown bounds what a log repeats of a command, in bytes.
const maxShown = 200

// firstLine is the beginning of a command, for a log.
func firstLine(command string) string {
	line, rest, _ := strings.Cut(strings.TrimSpace(command), "\n")
	if len(line) > maxShown {
		line, rest = strings.ToValidUTF8(line[:maxShown], ""), "…"
	}
	if rest != "" {
		return line + " …"
	}
	return line
}

// source says what is built upon, and as whom.
func (o *buildOrder) source(into *client.TemplateCreate) error {
	switch {
	case o.FromTemplate != "" && o.FromImage != "":
		return refuse(http.StatusBadRequest, "fromImage and fromTemplate exclude each other")
	case o.FromTemplate != "":
		name := templateName(o.FromTemplate)
		into.Template = &name
	case o.FromImage == "", o.FromImage == vendorImage, strings.HasPrefix(o.FromImage, vendorImage+":"):
		name := baseName
		into.Template = &name
	default:
		into.Image = &o.FromImage
	}
	if o.Registry == nil {
		return nil
	}
	if o.Registry.Type != "registry" {
		return unsupported("logins for registries of the type " + space.Clip(o.Registry.Type))
	}
	into.RegistryAuth = &api.RegistryAuth{Username: &o.Registry.Username, Password: &o.Registry.Password}
	return nil
}
