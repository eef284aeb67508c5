package files

import (
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	"github.com/space-platform/space/internal/guest/watch"
)

func (c *call) watch(a *sandboxv1.Watch) error {
	p, err := c.path("path", a.GetPath())
	if err != nil {
		return err
	}
	w, err := watch.Open(p, a.GetRecursive(), func(e watch.Event) error {
		return c.send(&sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Event{
			Event: &sandboxv1.Event{Kind: string(e.Kind), Path: valid(e.Path)},
		}})
	})
	if err != nil {
		return err
	}
	defer w.Close()
	if err := c.send(&sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Ready{Ready: &sandboxv1.Ready{}}}); err != nil {
		return err
	}
	return w.Run(c.ctx)
}
