package cli

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

const (
	completeTimeout = 2 * time.Second // for the platform to say what there is: a shell waits meanwhile
	completeMost    = 500             // candidates of one kind
)

func completionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "completion bash|zsh|fish", Short: "Print the script that completes commands in a shell",
		Long: "Prints the script that completes commands, flags and ids in a shell. Ids are those that the platform has at that moment; when it doesn't\n" +
			"answer within " + completeTimeout.String() + ", nothing is offered. bash needs its package bash-completion.",
		Example: "  source <(space completion bash)                                              # in ~/.bashrc\n" +
			"  space completion zsh > \"${fpath[1]}/_space\"                                  # once; zsh with compinit\n" +
			"  space completion fish > ~/.config/fish/completions/space.fish                # once",
		Args: cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs), ValidArgs: []string{"bash", "zsh", "fish"},
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			switch args[0] {
			case "zsh":
				return cmd.Root().GenZshCompletion(out)
			case "fish":
				return cmd.Root().GenFishCompletion(out, true)
			default:
				return cmd.Root().GenBashCompletionV2(out, true)
			}
		},
	}
}

// candidates lists what an argument may be, with what people recognize it by. The arguments before it are given.
type candidates func(ctx context.Context, c *client.Client, before []string) iter.Seq2[cobra.Completion, error]

// completes completes a command's arguments, each from the list at its place; the last list is also for what follows, if more may.
func (n *connection) completes(more bool, lists ...candidates) cobra.CompletionFunc {
	return func(cmd *cobra.Command, before []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		at := len(before)
		if more {
			at = min(at, len(lists)-1)
		}
		if at >= len(lists) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return n.candidates(cmd.Context(), lists[at], before, begun), cobra.ShellCompDirectiveNoFileComp
	}
}

// completesFlag completes a flag's value.
func (n *connection) completesFlag(c *cobra.Command, flag string, list candidates) {
	c.RegisterFlagCompletionFunc(flag, n.completes(true, list))
}

// candidates are those that begin with what is there already. A platform that doesn't answer has none: nobody wants an error while typing.
func (n *connection) candidates(ctx context.Context, list candidates, before []string, begun string) (out []cobra.Completion) {
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	c, err := n.client()
	if err != nil {
		return nil
	}
	for one, err := range list(ctx, c, before) {
		if err != nil || len(out) == completeMost {
			break
		}
		if strings.HasPrefix(one, begun) {
			out = append(out, one)
		}
	}
	return out
}

// each makes candidates of a list's items.
func each[T any](all iter.Seq2[T, error], candidate func(T) cobra.Completion) iter.Seq2[cobra.Completion, error] {
	return func(yield func(cobra.Completion, error) bool) {
		for item, err := range all {
			one := ""
			if err == nil {
				one = candidate(item)
			}
			if one == "" && err == nil {
				continue
			}
			if !yield(one, err) || err != nil {
				return
			}
		}
	}
}

// whole is a list that comes at once.
func whole[T any](list []T, err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if err != nil {
			yield(*new(T), err)
			return
		}
		for _, item := range list {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// sandboxes are those in some states; without any, all that there are.
func sandboxes(states ...string) candidates {
	return func(ctx context.Context, c *client.Client, before []string) iter.Seq2[cobra.Completion, error] {
		return each(c.ListSandboxes(ctx, client.SandboxFilter{}), func(s client.Sandbox) cobra.Completion {
			state := string(s.State)
			if len(states) > 0 && !slices.Contains(states, state) || slices.Contains(before, s.Id) {
				return ""
			}
			return cobra.CompletionWithDesc(s.Id, s.Template+", "+state)
		})
	}
}

// sessions are those of the sandbox that stands before them, newest first, also those that have ended.
func sessions(ctx context.Context, c *client.Client, before []string) iter.Seq2[cobra.Completion, error] {
	return each(c.ListSessions(ctx, before[0]), func(s client.Session) cobra.Completion {
		return cobra.CompletionWithDesc(s.Id, strings.Join(deref(s.Argv), " "))
	})
}

// openSessions are those of them that haven't ended, as far as the control plane knows.
func openSessions(ctx context.Context, c *client.Client, before []string) iter.Seq2[cobra.Completion, error] {
	return each(c.ListSessions(ctx, before[0]), func(s client.Session) cobra.Completion {
		if s.State != gen.SessionStateStarted {
			return ""
		}
		return cobra.CompletionWithDesc(s.Id, strings.Join(deref(s.Argv), " "))
	})
}

// deref is what may be absent, or its zero value.
func deref[T any](p *T) (out T) { return *cmp.Or(p, &out) }

// tokens are those of the sandbox that stands before them.
func tokens(ctx context.Context, c *client.Client, before []string) iter.Seq2[cobra.Completion, error] {
	list, err := c.ListSandboxTokens(ctx, before[0])
	return each(whole(list, err), func(t client.SandboxToken) cobra.Completion { return cobra.CompletionWithDesc(t.Id, text(t.Name)) })
}

// usableTemplates are the references of templates from which sandboxes can be made: names, aliases and NAME:TAG.
func usableTemplates(ctx context.Context, c *client.Client, _ []string) iter.Seq2[cobra.Completion, error] {
	list, err := c.ListTemplates(ctx)
	list = slices.DeleteFunc(list, func(t client.Template) bool { return t.State != gen.TemplateStateReady })
	return references(list, err)
}

// templates are the references of all templates, and their ids.
func templates(ctx context.Context, c *client.Client, _ []string) iter.Seq2[cobra.Completion, error] {
	list, err := c.ListTemplates(ctx)
	ids := each(whole(list, err), func(t client.Template) cobra.Completion {
		return cobra.CompletionWithDesc(t.Id, t.Name+", "+string(t.State))
	})
	return func(yield func(cobra.Completion, error) bool) {
		for _, all := range []iter.Seq2[cobra.Completion, error]{references(list, err), ids} {
			for one, err := range all {
				if !yield(one, err) {
					return
				}
			}
		}
	}
}

// references are what means each of some templates.
func references(list []client.Template, err error) iter.Seq2[cobra.Completion, error] {
	var all []cobra.Completion
	for _, t := range list {
		var names []string
		if t.Current {
			names = append([]string{t.Name}, t.Aliases...)
		}
		for _, tag := range t.Tags {
			names = append(names, t.Name+":"+tag)
		}
		for _, name := range names {
			all = append(all, cobra.CompletionWithDesc(name, string(t.State)))
		}
	}
	return whole(all, err)
}

// keys are those that work.
func keys(ctx context.Context, c *client.Client, _ []string) iter.Seq2[cobra.Completion, error] {
	return each(c.ListKeys(ctx), func(k client.Key) cobra.Completion {
		if k.RevokedAt != nil {
			return ""
		}
		return cobra.CompletionWithDesc(k.Id, k.Name)
	})
}

func uploads(ctx context.Context, c *client.Client, _ []string) iter.Seq2[cobra.Completion, error] {
	return each(c.ListUploads(ctx), func(u client.UploadInfo) cobra.Completion { return cobra.CompletionWithDesc(u.Id, size(u.Bytes)) })
}

func projects(ctx context.Context, c *client.Client, _ []string) iter.Seq2[cobra.Completion, error] {
	return each(c.ListProjects(ctx), func(p client.Project) cobra.Completion { return cobra.CompletionWithDesc(p.Id, p.Name) })
}

func users(ctx context.Context, c *client.Client, _ []string) iter.Seq2[cobra.Completion, error] {
	return each(c.ListUsers(ctx), func(u client.User) cobra.Completion { return cobra.CompletionWithDesc(u.Id, u.Name) })
}

// words are candidates that are always the same.
func words[T ~string](list ...T) candidates {
	return func(context.Context, *client.Client, []string) iter.Seq2[cobra.Completion, error] {
		return each(whole(list, nil), func(word T) cobra.Completion { return string(word) })
	}
}

// roleNames are the roles of users and keys.
var roleNames = []client.Role{"owner", "admin", "developer", "viewer"}

// completesPlaces completes the two places of cp: local files by the shell itself, sandboxes, and files in them.
func (n *connection) completesPlaces(cmd *cobra.Command, before []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	_, _, there := remote(begun)
	switch {
	case len(before) > 1:
		return nil, cobra.ShellCompDirectiveNoFileComp
	case !there && !strings.HasPrefix(begun, sandboxPrefix) && !strings.HasPrefix(sandboxPrefix, begun):
		return nil, cobra.ShellCompDirectiveDefault
	}
	return n.completesPlace(cmd, nil, begun)
}

// completesPlace completes the sandbox of a place. The files in it are known to its data plane only, and what opens that isn't made for a key press.
func (n *connection) completesPlace(cmd *cobra.Command, before []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if _, _, there := remote(begun); there || len(before) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	colon := func(ctx context.Context, c *client.Client, _ []string) iter.Seq2[cobra.Completion, error] {
		return each(c.ListSandboxes(ctx, client.SandboxFilter{}), func(s client.Sandbox) cobra.Completion { return cobra.CompletionWithDesc(s.Id+":", s.Template) })
	}
	return n.candidates(cmd.Context(), colon, nil, begun), cobra.ShellCompDirectiveNoSpace
}
