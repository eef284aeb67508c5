package cli

import (
	"errors"
	"time"

	"github.com/spf13/pflag"
)

// spanVar adds a flag for a time that is longer than none. It's 0 if the flag isn't given; who gives 0 or less has mistaken something, and
// mustn't be understood as if they had given nothing.
func spanVar(f *pflag.FlagSet, to *time.Duration, name, usage string) {
	f.Var((*span)(to), name, usage)
}

type span time.Duration

// Set implements pflag.Value.
func (s *span) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return errors.New("it isn't a time like 90s, 15m or 24h")
	}
	if d <= 0 {
		return errors.New("it must be longer than 0")
	}
	*s = span(d)
	return nil
}

// String implements pflag.Value; nothing is shown as the default.
func (s *span) String() string {
	if *s == 0 {
		return ""
	}
	return time.Duration(*s).String()
}

// Type implements pflag.Value.
func (s *span) Type() string { return "duration" }
