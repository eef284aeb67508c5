package templates

import (
	"fmt"
	"strings"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/program"
	"github.com/space-platform/space/internal/control/record"
)

func (c Create) checkSteps() error {
	if n := len(c.Steps); n > maxSteps {
		return space.FieldErrorf("steps", "has %d items: at most %d are allowed", n, maxSteps)
	}
	for i, s := range c.Steps {
		if err := s.check(fmt.Sprintf("steps[%d]", i)); err != nil {
			return err
		}
	}
	return nil
}

// check refuses a step that isn't exactly one thing, and such that is wrong.
func (s Step) check(field string) error {
	var given []string
	for _, kind := range []struct {
		name string
		is   bool
	}{{"run", s.Run != nil}, {"copy", s.Copy != nil}, {"env", s.Env != nil}, {"workdir", s.Workdir != nil}, {"user", s.User != nil}} {
		if kind.is {
			given = append(given, kind.name)
		}
	}
	if len(given) != 1 {
		what := "is empty"
		if len(given) > 0 {
			what = "has " + strings.Join(given, " and ")
		}
		return space.FieldErrorf(field, "%s: exactly one of run, copy, env, workdir and user is needed", what)
	}
	return s.checkOne(field + "." + given[0])
}

func (s Step) checkOne(field string) error {
	switch {
	case s.Run != nil:
		return required(field, *s.Run, program.CheckText(field, *s.Run, program.MaxText))
	case s.Copy != nil:
		return checkCopy(field, *s.Copy)
	case s.Workdir != nil:
		return required(field, *s.Workdir, program.CheckDirectory(field, *s.Workdir))
	case s.User != nil:
		return required(field, *s.User, space.CheckUser(field, *s.User))
	case len(s.Env) == 0:
		return space.FieldErrorf(field, "is empty: at least 1 entry is needed")
	default:
		return program.CheckEnv(field, s.Env)
	}
}

func required(field, s string, err error) error {
	if s == "" {
		return space.FieldErrorf(field, "is empty: at least 1 character is needed")
	}
	return err
}

func checkCopy(field string, c record.Copy) error {
	if err := checkUpload(field+".upload", c.Upload); err != nil {
		return err
	}
	if err := required(field+".to", c.To, program.CheckDirectory(field+".to", c.To)); err != nil {
		return err
	}
	return space.CheckUser(field+".owner", c.Owner)
}
