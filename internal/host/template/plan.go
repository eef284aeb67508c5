package template

import (
	"context"
	"fmt"

	"github.com/space-platform/space/internal/host/upload"
)

// planned is one thing to do, and the key of the disk after it.
type planned struct {
	number int // of the step, from 1; 0: the source
	step   Step
	key    string
	disk   bool // whether it changes the disk
}

// plan finds out what the source is, and the keys of all that follows.
func (b *builder) plan(ctx context.Context) ([]planned, error) {
	key, err := b.source(ctx)
	if err != nil {
		return nil, err
	}
	all := []planned{{key: key, disk: true}}
	// What steps make is their project's alone, and of a machine like this one: they run what the project says, and may look at the machine.
	key = chain(key, "steps of", b.order.Project, b.size.VCPUs, b.size.MemoryBytes)
	for n, s := range b.order.Steps {
		p := planned{number: n + 1, step: s, disk: s.Set == nil}
		if p.key, err = b.stepKey(key, s); err != nil {
			return nil, at(n+1, err)
		}
		key = p.key
		all = append(all, p)
	}
	return all, nil
}

// stepKey is the key of what comes after a layer and a step. What runs and unpacks beside the disk is the kernel with the guest in it.
func (b *builder) stepKey(before string, s Step) (string, error) {
	switch {
	case s.Run != "":
		return chain(before, "run", s.Run, b.cfg.Kernel.Digest), nil
	case s.Copy != nil:
		f, err := b.use(s.Copy.Upload)
		if err != nil {
			return "", err
		}
		return chain(before, "copy", f.SHA256, s.Copy.To, s.Copy.Owner, b.cfg.Kernel.Digest), nil
	}
	return chain(before, "set", s.Set), nil
}

// use returns an upload, whose bytes stay what they are until the build ends: the keys of layers are made of them.
func (b *builder) use(id string) (upload.File, error) {
	f, done, err := b.cfg.Uploads.Use(id)
	if err == nil {
		b.uploads = append(b.uploads, done)
	}
	return f, err
}

// letGo ends the use of all uploads.
func (b *builder) letGo() {
	for _, done := range b.uploads {
		done()
	}
	b.uploads = nil
}

// follow does the plan, from behind the last thing whose disk is kept already.
func (b *builder) follow(ctx context.Context, plan []planned) error {
	first := b.resume(plan)
	for n, p := range plan {
		b.step = p.number
		if n == 0 && n >= first {
			if err := b.makeSource(ctx, p.key); err != nil {
				return err
			}
		} else if err := b.do(ctx, p, n < first); err != nil {
			return err
		}
		if n == 0 {
			b.state = defaultsOf(b.config).with(b.state) // a base template's are there already
		}
	}
	b.step = len(b.order.Steps) + 1
	b.set(b.order.Defaults, "workdir")
	return nil
}

// resume puts the newest disk that is kept into place, and returns the number of the first thing that's left to do.
func (b *builder) resume(plan []planned) (first int) {
	if b.order.NoCache {
		return 0
	}
	for n := len(plan) - 1; n >= 0; n-- {
		if !plan[n].disk {
			continue
		}
		if kept, ok := b.layers.take(plan[n].key, b.disk()); ok {
			b.config = kept.Config
			return n + 1
		}
	}
	return 0
}

// do does one step, or only what it changes beside the disk.
func (b *builder) do(ctx context.Context, p planned, cached bool) error {
	switch {
	case p.number == 0:
		b.said("the source is as it was; its disk is kept")
		return nil
	case p.step.Set != nil && cached: // its directory is on the disk that is kept
		b.state = b.state.with(*p.step.Set)
		return nil
	case p.step.Set != nil:
		b.set(*p.step.Set, fmt.Sprintf("steps[%d].workdir", p.number-1))
		return nil
	case cached:
		b.said(fmt.Sprintf("step %d is as it was; its disk is kept", p.number))
		return nil
	}
	if err := b.grow(); err != nil {
		return err
	}
	if err := b.runStep(ctx, p); err != nil {
		return err
	}
	return b.layers.put(layer{Key: p.key, Config: b.config}, b.disk())
}
