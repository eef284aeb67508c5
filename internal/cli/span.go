package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

const day = 24 * time.Hour

// span is the value of a flag that takes a time between limits.
type span struct {
	to          *time.Duration
	least, most time.Duration
	none        bool // "none" is one, too: 0
}

// spanVar adds such a flag. The time is 0 if the flag isn't given, so least is longer than that: who gives 0 has mistaken something, and
// mustn't be understood as if they had given nothing.
func spanVar(f *pflag.FlagSet, to *time.Duration, name, usage string, least, most time.Duration) {
	f.Var(span{to: to, least: least, most: most}, name, usage)
}

// spanOrNoneVar does the same, and takes none as well, which is 0.
func spanOrNoneVar(f *pflag.FlagSet, to *time.Duration, name, usage string, least, most time.Duration) {
	f.Var(span{to: to, least: least, most: most, none: true}, name, usage)
}

// Set implements pflag.Value.
func (s span) Set(text string) error {
	if s.none && text == "none" {
		*s.to = 0
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		if s.none {
			return errors.New("it's neither a time like 90s, 15m or 24h nor none")
		}
		return errors.New("it isn't a time like 90s, 15m or 24h")
	}
	if d < s.least || d > s.most {
		return fmt.Errorf("want a time from %s to %s", brief(s.least), brief(s.most))
	}
	*s.to = d
	return nil
}

// brief is a time without the seconds and minutes that are none.
func brief(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// String implements pflag.Value; nothing is shown as the default.
func (s span) String() string {
	if s.to == nil || *s.to == 0 {
		return ""
	}
	return s.to.String()
}

// Type implements pflag.Value.
func (s span) Type() string { return "duration" }
