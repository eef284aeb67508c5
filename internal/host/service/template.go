package service

import (
	"context"

	"connectrpc.com/connect"

	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	hostv1 "github.com/space-platform/space/api/gen/host/v1"
	"github.com/space-platform/space/internal/host/image"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/template"
	"github.com/space-platform/space/internal/peer"
)

// Templates does what is ordered about templates. See template.Store.
type Templates interface {
	Ensure(o template.Order) error
	Remove(template string) error
	Acknowledge(received map[string]uint64)
	Reports() []template.Report
}

// EnsureTemplate begins the build of a template.
func (h *Host) EnsureTemplate(_ context.Context, req *connect.Request[hostv1.EnsureTemplateRequest]) (*connect.Response[hostv1.EnsureTemplateResponse], error) {
	o := req.Msg.GetOrder()
	err := checkTemplate(o.GetTemplate())
	if base := o.GetSource().GetTemplate(); err == nil && base != "" {
		err = checkTemplate(base)
	}
	if err == nil {
		err = h.Templates.Ensure(templateOrder(o))
	}
	if err != nil {
		return nil, peer.ToConnect(err)
	}
	return connect.NewResponse(&hostv1.EnsureTemplateResponse{}), nil
}

// RemoveTemplate removes a template to its last trace.
func (h *Host) RemoveTemplate(_ context.Context, req *connect.Request[hostv1.RemoveTemplateRequest]) (*connect.Response[hostv1.RemoveTemplateResponse], error) {
	id := req.Msg.GetOrder().GetTemplate()
	err := checkTemplate(id)
	if err == nil {
		err = h.Templates.Remove(id)
	}
	if err != nil {
		return nil, peer.ToConnect(err)
	}
	return connect.NewResponse(&hostv1.RemoveTemplateResponse{}), nil
}

// Acknowledge lets go of lines, and of ends of sessions, that the control plane has, and of uploads that it wants no more.
func (h *Host) Acknowledge(_ context.Context, req *connect.Request[hostv1.AcknowledgeRequest]) (*connect.Response[hostv1.AcknowledgeResponse], error) {
	h.Templates.Acknowledge(req.Msg.GetLogLines())
	h.Ends.Acknowledge(req.Msg.GetSessionEnds())
	h.Uploads.Remove(req.Msg.GetUnwantedUploads())
	return connect.NewResponse(&hostv1.AcknowledgeResponse{}), nil
}

func templateOrder(o *controlv1.EnsureTemplate) template.Order {
	s := o.GetSource()
	out := template.Order{
		Template: o.GetTemplate(), Project: o.GetProject(), HadLogin: o.GetHadRegistryAuth(), Recipe: o.GetRecipe(), Image: s.GetImage(), Archive: s.GetArchive(), Rootfs: s.GetRootfs(), Base: s.GetTemplate(),
		Start: o.GetStartCommand(), Ready: o.GetReadyCheck(), Defaults: defaults(o.GetDefaults()), Size: size(o.GetShape()), NoCache: o.GetNoCache(),
	}
	if d := s.GetDebian(); d != nil {
		out.Debian = &rootfs.Debian{Suite: d.GetSuite(), Packages: d.GetPackages()}
	}
	if a := o.GetRegistryAuth(); a != nil {
		out.Login = &image.Login{Username: a.GetUsername(), Password: a.GetPassword(), Token: a.GetToken()}
	}
	for _, s := range o.GetSteps() {
		out.Steps = append(out.Steps, templateStep(s))
	}
	return out
}

func templateStep(s *controlv1.Step) template.Step {
	out := template.Step{Run: s.GetRun()}
	if c := s.GetCopy(); c != nil {
		out.Copy = &template.Copy{Upload: c.GetUpload(), To: c.GetTo(), Owner: c.GetOwner()}
	}
	if set := s.GetSet(); set != nil {
		d := defaults(set)
		out.Set = &d
	}
	return out
}

func defaults(d *controlv1.Defaults) template.Defaults {
	return template.Defaults{Env: d.GetEnv(), User: d.GetUser(), Workdir: d.GetWorkdir()}
}
