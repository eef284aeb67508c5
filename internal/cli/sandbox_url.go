package cli

import (
	"context"
	"fmt"
	"io"
	"path"
	"time"

	"github.com/spf13/cobra"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

func sandboxURLCommand(n *connection) *cobra.Command {
	c := &cobra.Command{Use: "url", Short: "Sign URLs that read or write one file of a sandbox, and void them", Args: cobra.NoArgs, RunE: help}
	c.AddCommand(sandboxURLCreateCommand(n), sandboxURLRevokeCommand(n))
	return c
}

func sandboxURLCreateCommand(n *connection) *cobra.Command {
	var write bool
	var life time.Duration
	var user string
	c := &cobra.Command{Use: "create SANDBOX:PATH", Short: "Sign a URL that reads one file, or writes it, and needs nothing else", Args: cobra.ExactArgs(1),
		Long: "Prints a URL with which whoever has it reads one file of a sandbox until a time, with GET, or writes it, with PUT. A relative path begins\n" +
			"at the user's home. A URL can't be voided by itself, only all of a sandbox together.",
		Example: "  curl -fsS \"$(space sandbox url create sbx_…:report.pdf)\"\n  curl -fsST in.csv \"$(space sandbox url create --write --life 10m sbx_…:/tmp/in.csv)\"",
	}
	c.Flags().BoolVar(&write, "write", false, "it writes the file, instead of reading it")
	spanVar(c.Flags(), &life, "life", "how long it works, at most 168h; an hour if not given", time.Second, 7*day)
	c.Flags().StringVarP(&user, "user", "u", "", "with the rights of this user of the sandbox")
	c.ValidArgsFunction = n.completesPlace
	c.RunE = n.act(func(ctx context.Context, cl *client.Client, args []string, out io.Writer) error {
		sandbox, file, ok := remote(args[0])
		if !ok || file == "" {
			return wrongly("write SANDBOX:PATH, for example sbx_…:/tmp/file", "%q is no file of a sandbox", args[0])
		}
		file, err := absolute(ctx, cl, sandbox, file, user)
		if err != nil {
			return err
		}
		in := client.FileURLCreate{Path: file, Operation: gen.FileURLCreateOperationRead, User: given(user)}
		if write {
			in.Operation = gen.FileURLCreateOperationWrite
		}
		set(&in.ExpiresInSeconds, int(life/time.Second))
		u, err := cl.SignFileURL(ctx, sandbox, in)
		if err != nil {
			return err
		}
		if n.json() {
			return WriteJSON(out, u)
		}
		_, err = fmt.Fprintln(out, u.Url)
		return err
	})
	return c
}

// absolute asks a sandbox where a user's relative paths begin.
func absolute(ctx context.Context, c *client.Client, sandbox, file, user string) (string, error) {
	if path.IsAbs(file) {
		return file, nil
	}
	p, err := c.Plane(ctx, sandbox)
	if err != nil {
		return "", err
	}
	defer p.Close(ctx) // a token that can't be revoked ends by itself, after minutes
	home, err := p.StatFile(ctx, ".", client.AsUser(user))
	return path.Join(home.Path, file), err
}

func sandboxURLRevokeCommand(n *connection) *cobra.Command {
	return &cobra.Command{Use: "revoke SANDBOX", Short: "Void all URLs that were signed for a sandbox", Args: cobra.ExactArgs(1),
		Example: "  space sandbox url revoke sbx_…", ValidArgsFunction: n.completes(false, sandboxes()),
		RunE: n.act(func(ctx context.Context, c *client.Client, args []string, out io.Writer) error {
			if err := c.RevokeFileURLs(ctx, args[0]); err != nil {
				return err
			}
			return n.showDone(out, args[0], "revoked")
		})}
}
