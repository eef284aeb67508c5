package nodesync

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	routev1 "github.com/space-platform/space/api/gen/route/v1"
	"github.com/space-platform/space/internal/control/program"
	"github.com/space-platform/space/internal/control/record"
)

const (
	// maxLogLines bounds the lines of one template's log in a report.
	maxLogLines = 200
	// maxLogLine bounds a line, in bytes.
	maxLogLine = 4096
	// maxLineNumber bounds the lines of one build, far beyond what is ever reached.
	maxLineNumber = 1 << 40
)

func readTemplate(m *controlv1.TemplateReport) (TemplateReport, error) {
	if err := space.CheckID(space.PrefixTemplate, m.Template); err != nil {
		return TemplateReport{}, space.Errorf(space.CodeInvalid, "%w", err)
	}
	state := record.TemplateState(m.State)
	if state != record.TemplateBuilding && state != record.TemplateReady && state != record.TemplateFailed {
		return TemplateReport{}, space.Errorf(space.CodeInvalid, "template %s is reported in the unknown state %q", m.Template, space.Clip(m.State))
	}
	lines, err := readLog(m)
	if err != nil {
		return TemplateReport{}, err
	}
	return TemplateReport{Log: lines, TemplateSeen: record.TemplateSeen{ID: m.Template, Defaults: readDefaults(m.Defaults), Status: record.TemplateStatus{
		State: state, Shape: readShape(m.Shape), Digest: clean(m.Digest), Progress: clean(m.Progress), Error: readBuildError(m.Error),
		FailedStep: int(max(record.AfterSteps, min(m.FailedStep, maxSteps))),
	}}}, nil
}

// buildFields are the names that a node has for fields of a build, where they differ from the API's.
var buildFields = map[string]string{"shape.vcpus": "vcpus", "shape.memory_bytes": "memory_mb", "shape.disk_bytes": "disk_mb"}

// buildField is what a field of a build is called.
var buildField = regexp.MustCompile(`^[a-z_]{1,32}(\[[0-9]{1,3}\])?(\.[a-z_]{1,32})?$`)

// readBuildError reads why a build failed; it may name the field of the request that it's about.
func readBuildError(m *routev1.Error) *space.Error {
	e := readError(m)
	if e == nil {
		return nil
	}
	field := cmp.Or(buildFields[m.GetField()], m.GetField())
	if buildField.MatchString(field) {
		e.Field = field
	}
	return e
}

// maxSteps bounds the number of a step.
const maxSteps = 1 << 16

// readLog reads the lines of a template's log. Times are as exact as the database keeps them, so that they can be compared with what it has.
func readLog(m *controlv1.TemplateReport) ([]record.LogLine, error) {
	if n := len(m.Log); n > maxLogLines {
		return nil, space.Errorf(space.CodeTooLarge, "template %s is reported with %d lines of its log: at most %d are allowed", m.Template, n, maxLogLines)
	}
	var out []record.LogLine
	last := uint64(0)
	for _, l := range m.Log {
		if l.Number <= last || l.Number > maxLineNumber {
			return nil, space.Errorf(space.CodeInvalid, "line %d of template %s's log comes after line %d", l.Number, m.Template, last)
		}
		last = l.Number
		out = append(out, record.LogLine{
			Number: int64(l.Number), At: readTime(l.At).UTC().Truncate(time.Microsecond), Step: int(min(l.Step, maxSteps)), Text: cleanLine(l.Text),
		})
	}
	return out, nil
}

// cleanLine makes a line fit to be shown anywhere: what a build prints must not move a terminal's cursor.
func cleanLine(s string) string {
	s = s[:min(len(s), maxLogLine)]
	return strings.TrimRight(strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || r != '\t' && unicode.IsControl(r) {
			return -1
		}
		return r
	}, s), " \t")
}

// readDefaults reads what a template sets for its sessions. An image may say anything: what no session could be given is left out.
func readDefaults(m *controlv1.Defaults) record.Defaults {
	out := record.Defaults{User: clean(m.GetUser()), Workdir: clean(m.GetWorkdir())}
	left := program.MaxEnvBytes
	for _, name := range slices.Sorted(maps.Keys(m.GetEnv())) {
		value := m.GetEnv()[name]
		size := len(name) + len(value) + 2
		if size > left || len(out.Env) == program.MaxEnv || program.CheckEnv("env", map[string]string{name: value}) != nil || !utf8.ValidString(value) {
			continue
		}
		if out.Env == nil {
			out.Env = map[string]string{}
		}
		out.Env[name] = value
		left -= size
	}
	return out
}

// writeBuild is the order to build a template.
func writeBuild(b record.BuildOrder) *controlv1.Order {
	out := &controlv1.EnsureTemplate{
		Template: b.Template, Recipe: b.Build.Source.Recipe, Shape: writeShape(b.Shape), Source: writeSource(b.Build.Source),
		Project: b.Project, HadRegistryAuth: b.Build.HadAuth, StartCommand: b.Build.StartCommand, ReadyCheck: b.Build.ReadyCheck, Defaults: writeDefaults(b.Build.Defaults), NoCache: b.Build.NoCache,
	}
	if a := b.Auth; a != nil {
		out.RegistryAuth = &controlv1.RegistryAuth{Username: a.Username, Password: a.Password, Token: a.Token}
	}
	for _, s := range b.Build.Steps {
		out.Steps = append(out.Steps, writeStep(s))
	}
	return &controlv1.Order{Order: &controlv1.Order_EnsureTemplate{EnsureTemplate: out}}
}

// writeSource is nil for a recipe, which has a field of its own.
func writeSource(s record.Source) *controlv1.Source {
	switch {
	case s.Debian != nil:
		return &controlv1.Source{Source: &controlv1.Source_Debian{Debian: &controlv1.Debian{Suite: s.Debian.Suite, Packages: s.Debian.Packages}}}
	case s.Image != "":
		return &controlv1.Source{Source: &controlv1.Source_Image{Image: s.Image}}
	case s.Archive != "":
		return &controlv1.Source{Source: &controlv1.Source_Archive{Archive: s.Archive}}
	case s.Rootfs != "":
		return &controlv1.Source{Source: &controlv1.Source_Rootfs{Rootfs: s.Rootfs}}
	case s.Template != "":
		return &controlv1.Source{Source: &controlv1.Source_Template{Template: s.Template}}
	default:
		return nil
	}
}

func writeStep(s record.Step) *controlv1.Step {
	switch {
	case s.Copy != nil:
		return &controlv1.Step{Step: &controlv1.Step_Copy{Copy: &controlv1.Copy{Upload: s.Copy.Upload, To: s.Copy.To, Owner: s.Copy.Owner}}}
	case s.Set != nil:
		return &controlv1.Step{Step: &controlv1.Step_Set{Set: writeDefaults(*s.Set)}}
	default:
		return &controlv1.Step{Step: &controlv1.Step_Run{Run: s.Run}}
	}
}

func writeDefaults(d record.Defaults) *controlv1.Defaults {
	return &controlv1.Defaults{Env: d.Env, User: d.User, Workdir: d.Workdir}
}
