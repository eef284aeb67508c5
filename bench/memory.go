package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/host/meminfo"
	"github.com/space-platform/space/internal/instance"
)

// idleSandboxes run at once while memory is measured; idleParallel are created at a time.
const (
	idleSandboxes = 100
	idleParallel  = 4
)

// memory measures what idle sandboxes and the daemons take: the proportional set sizes of their processes, and by how much the machine's
// available memory fell.
func (r *run) memory(ctx context.Context) (out []result, err error) {
	log.Printf("%d idle sandboxes", idleSandboxes)
	before, err := meminfo.Read()
	if err != nil {
		return nil, err
	}
	ids, err := r.idle(ctx)
	defer func() {
		for _, id := range ids {
			if derr := r.client.DeleteSandbox(ctx, id); derr != nil && err == nil {
				err = derr
			}
		}
	}()
	if err != nil {
		return nil, err
	}
	after, err := meminfo.Read()
	if err != nil {
		return nil, err
	}
	use, err := r.pss()
	if err != nil {
		return nil, err
	}
	figure := func(name string, bytes int64) result {
		x := compare(name, []float64{round(float64(bytes) / (1 << 20))}, nil)
		x.Unit = "MiB"
		return x
	}
	return []result{
		figure("idle_sandbox_mb", use.machines/idleSandboxes),
		figure("idle_sandbox_available_mb", (before.Available-after.Available)/idleSandboxes),
		figure("daemons_mb", use.daemons),
		figure("postgres_mb", use.postgres),
	}, nil
}

// idle creates the sandboxes; those that are there are returned with an error, too.
func (r *run) idle(ctx context.Context) (ids []string, err error) {
	var mu sync.Mutex
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(idleParallel)
	for range idleSandboxes {
		g.Go(func() error {
			s, err := r.client.CreateSandbox(gctx, client.SandboxCreate{Template: r.template})
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			ids = append(ids, s.Id)
			return nil
		})
	}
	err = g.Wait()
	return ids, err
}

// use is memory in bytes.
type use struct{ machines, daemons, postgres int64 }

// pss adds up the proportional set sizes of the instance's processes by what they are. Root's are told by their program.
func (r *run) pss() (u use, err error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return u, err
	}
	first, last := r.inst.VMUIDs()
	program := filepath.Join(r.inst.BinDir(), "space")
	for _, dir := range dirs {
		var info unix.Stat_t
		if unix.Stat(dir, &info) != nil {
			continue // it has ended
		}
		exe, _ := os.Readlink(filepath.Join(dir, "exe"))
		var to *int64
		switch uid := int(info.Uid); {
		case uid >= first && uid <= last:
			to = &u.machines
		case uid == r.inst.UID(instance.Postgres):
			to = &u.postgres
		case strings.HasPrefix(exe, program):
			to = &u.daemons
		default:
			continue
		}
		n, err := pssOf(dir)
		if err != nil {
			return u, err
		}
		*to += n
	}
	if u.machines == 0 || u.daemons == 0 || u.postgres == 0 {
		return u, fmt.Errorf("some processes weren't found: %+v", u)
	}
	return u, nil
}

// pssOf reads a process's proportional set size, in bytes; see proc_pid_smaps(5). 0 for one that has ended.
func pssOf(dir string) (int64, error) {
	f, err := os.Open(filepath.Join(dir, "smaps_rollup"))
	if err != nil {
		return 0, nil
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if v, ok := strings.CutPrefix(lines.Text(), "Pss:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(v, "kB")), 10, 64)
			return n << 10, err
		}
	}
	return 0, nil
}
