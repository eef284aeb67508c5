package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/cli"
	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/pgserver"
)

// How lists are measured.
const (
	listed     = 100_000 // sandboxes, by list.sql
	listPage   = 100     // of them on a page, the most that there are
	listRounds = 50      // of each kind
	listDeep   = 200     // pages before the deep one
	listGoal   = 20      // ms
)

//go:embed list.sql
var listSQL string

// list measures pages of the list of sandboxes when there are very many, by what is asked for.
func (r *run) list(ctx context.Context) ([]result, error) {
	p := r.load
	log.Printf("insert %d sandboxes", listed)
	if err := p.sql(ctx, listSQL); err != nil {
		return nil, err
	}
	api, err := p.api()
	if err != nil {
		return nil, err
	}
	running, failed := gen.SandboxStateRunning, gen.SandboxStateFailed
	cursor, err := deepCursor(ctx, api)
	if err != nil {
		return nil, err
	}
	var out []result
	for _, x := range []struct {
		name string
		gen.ListSandboxesParams
	}{
		{"list_page_ms", gen.ListSandboxesParams{}},
		{"list_page_deep_ms", gen.ListSandboxesParams{Cursor: cursor}},
		{"list_page_state_ms", gen.ListSandboxesParams{State: &[]gen.SandboxState{running}}},
		{"list_page_rare_state_ms", gen.ListSandboxesParams{State: &[]gen.SandboxState{failed}}},
		{"list_page_metadata_ms", gen.ListSandboxesParams{Metadata: &[]string{"team=team-7"}}},
		{"list_page_rare_metadata_ms", gen.ListSandboxesParams{Metadata: &[]string{"user=user-77"}}},
		{"list_page_metadata_and_state_ms", gen.ListSandboxesParams{Metadata: &[]string{"team=team-7", "stage=development"}, State: &[]gen.SandboxState{running}}},
	} {
		log.Print(x.name)
		var took []float64
		for range listRounds {
			began := time.Now()
			page, err := listOne(ctx, api, x.ListSandboxesParams)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", x.name, err)
			}
			took = append(took, since(began))
			if len(page.Items) == 0 {
				return nil, fmt.Errorf("%s: the page is empty", x.name)
			}
		}
		out = append(out, compare(x.name, took, nil).below(listGoal))
	}
	return out, nil
}

// api is the API as its contract has it, page by page.
func (p *platform) api() (*gen.Client, error) {
	c, err := cli.Load(cli.Overrides{Instance: p.name})
	if err != nil {
		return nil, err
	}
	return gen.NewClient(c.URL, gen.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+c.APIKey)
		return nil
	}))
}

func listOne(ctx context.Context, api *gen.Client, p gen.ListSandboxesParams) (page gen.SandboxPage, err error) {
	limit := listPage
	p.Limit = &limit
	resp, err := api.ListSandboxes(ctx, &p)
	if err != nil {
		return page, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return page, fmt.Errorf("list sandboxes: %s", resp.Status)
	}
	return page, json.NewDecoder(resp.Body).Decode(&page)
}

// deepCursor goes on from page to page.
func deepCursor(ctx context.Context, api *gen.Client) (*string, error) {
	var cursor *string
	for range listDeep {
		page, err := listOne(ctx, api, gen.ListSandboxesParams{Cursor: cursor})
		if err != nil {
			return nil, err
		}
		if cursor = page.NextCursor; cursor == nil {
			return nil, fmt.Errorf("there are fewer than %d pages", listDeep)
		}
	}
	return cursor, nil
}

// sql has the platform's own PostgreSQL execute a script, as the control plane.
func (p *platform) sql(ctx context.Context, script string) error {
	bin, err := pgserver.Binaries(pgserver.Root, "")
	if err != nil {
		return err
	}
	uid := uint32(p.inst.UID(instance.Postgres))
	cmd := exec.CommandContext(ctx, bin+"/psql", "-qX", "-v", "ON_ERROR_STOP=1", "-h", p.inst.RoleRunDir(instance.Postgres), "-U", "space", "space")
	cmd.Dir, cmd.Stdin, cmd.Stderr = "/", strings.NewReader(script), os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("execute SQL: %w", err)
	}
	return nil
}
