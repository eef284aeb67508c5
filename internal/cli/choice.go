package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// choice is the value of a flag that takes one of some words.
type choice[T ~string] struct {
	to    *T
	words []T
}

// choiceVar adds such a flag to a command, and completes it.
func choiceVar[T ~string](c *cobra.Command, to *T, name, usage string, words []T) {
	c.Flags().Var(choice[T]{to, words}, name, usage)
	completesWords(c, name, words)
}

// Set implements pflag.Value.
func (c choice[T]) Set(text string) error {
	if !slices.Contains(c.words, T(text)) {
		return fmt.Errorf("want one of %s", list(c.words))
	}
	*c.to = T(text)
	return nil
}

// String implements pflag.Value.
func (c choice[T]) String() string {
	if c.to == nil {
		return ""
	}
	return string(*c.to)
}

// Type is shown in help texts.
func (c choice[T]) Type() string { return join(c.words, "|") }

// choices is the value of a flag that takes some of some words, separated by commas or given again and again.
type choices[T ~string] struct {
	to    *[]T
	words []T
}

// choicesVar adds such a flag to a command, and completes it.
func choicesVar[T ~string](c *cobra.Command, to *[]T, name, usage string, words []T) {
	c.Flags().Var(choices[T]{to, words}, name, usage)
	completesWords(c, name, words)
}

// Set implements pflag.Value.
func (c choices[T]) Set(text string) error {
	for word := range strings.SplitSeq(text, ",") {
		var one T
		if err := (choice[T]{&one, c.words}).Set(word); err != nil {
			return err
		}
		*c.to = append(*c.to, one)
	}
	return nil
}

// String implements pflag.Value.
func (c choices[T]) String() string {
	if c.to == nil {
		return ""
	}
	return join(*c.to, ",")
}

// Type is shown in help texts.
func (c choices[T]) Type() string { return "WORD,…" }

var _, _ pflag.Value = choice[string]{}, choices[string]{}

func completesWords[T ~string](c *cobra.Command, flag string, words []T) {
	c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(strings.Split(join(words, ","), ","), cobra.ShellCompDirectiveNoFileComp))
}

// list names words for a sentence.
func list[T ~string](words []T) string { return join(words, ", ") }

func join[T ~string](words []T, between string) string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = string(w)
	}
	return strings.Join(all, between)
}
