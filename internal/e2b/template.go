package e2b

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"strings"
	"time"

	space "github.com/space-platform/space"
	api "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

// defaultTag is the tag that a template's name alone means.
const defaultTag = "default"

// buildOf is the id of the build that made a version of a template, for who didn't follow it: a UUID of its id.
func buildOf(template string) string {
	sum := sha256.Sum256([]byte(template))
	return uuid([16]byte(sum[:16]))
}

// getTemplates serves what can be asked of templates. A template's name may have slashes, so that it's cut here.
func (f *Facade) getTemplates(w http.ResponseWriter, r *request) error {
	rest := r.rest()
	parts := strings.Split(rest, "/")
	last := len(parts) - 1
	switch {
	case len(parts) == 2 && parts[0] == "aliases":
		return f.getAlias(w, r, unescape(parts[1]))
	case last >= 1 && parts[last] == "tags":
		return f.getTags(w, r, unescape(strings.Join(parts[:last], "/")))
	case last >= 2 && parts[last-1] == "files":
		return f.filesLink(w, r, unescape(strings.Join(parts[:last-1], "/")), parts[last])
	case last >= 3 && parts[last] == "status" && parts[last-2] == "builds":
		return f.buildStatus(w, r, unescape(strings.Join(parts[:last-2], "/")), parts[last-1])
	case last >= 3 && parts[last] == "logs" && parts[last-2] == "builds":
		return f.buildStatus(w, r, unescape(strings.Join(parts[:last-2], "/")), parts[last-1])
	}
	return f.getTemplate(w, r, unescape(rest))
}

// template returns a version of a template by its name, NAME:TAG or id.
func (r *request) template(name string) (client.Template, error) {
	t, err := r.platform.GetTemplate(r.Context(), templateName(name))
	if is(err, space.CodeNotFound, space.CodeInvalid) {
		return t, refuse(http.StatusNotFound, "template %q doesn't exist", space.Clip(name))
	}
	return t, err
}

func (f *Facade) getAlias(w http.ResponseWriter, r *request, alias string) error {
	t, err := r.template(alias)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, map[string]any{"templateID": t.Name, "public": false})
	return nil
}

// versions are those of a template's name, newest first.
func (r *request) versions(name string) ([]client.Template, error) {
	t, err := r.template(name)
	if err != nil {
		return nil, err
	}
	return r.versionsOf(t)
}

func (r *request) versionsOf(t client.Template) ([]client.Template, error) {
	all, err := r.platform.ListTemplates(r.Context())
	if err != nil {
		return nil, err
	}
	var out []client.Template
	for _, v := range all {
		if v.Name == t.Name && v.Shared == t.Shared {
			out = append(out, v)
		}
	}
	return out, nil
}

// maxTags bounds the tags of a template's name, as the platform does.
const maxTags = 256

// tagsOf are those of a template's name, whichever version they mean.
func (r *request) tagsOf(t client.Template) (map[string]bool, error) {
	versions, err := r.versionsOf(t)
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, v := range versions {
		for _, tag := range v.Tags {
			out[tag] = true
		}
	}
	return out, nil
}

func (f *Facade) getTags(w http.ResponseWriter, r *request, name string) error {
	versions, err := r.versions(name)
	if err != nil {
		return err
	}
	type tag struct {
		Tag       string    `json:"tag"`
		BuildID   string    `json:"buildID"`
		CreatedAt time.Time `json:"createdAt"`
	}
	out := []tag{}
	for _, v := range versions {
		if v.Current {
			out = append(out, tag{defaultTag, buildOf(v.Id), v.CreatedAt})
		}
		for _, t := range v.Tags {
			out = append(out, tag{t, buildOf(v.Id), v.CreatedAt})
		}
	}
	answer(w, http.StatusOK, out)
	return nil
}

// assignTags sets all of the tags or, if that can't be, none.
func (f *Facade) assignTags(w http.ResponseWriter, r *request) error {
	var in struct {
		Target string   `json:"target"`
		Tags   []string `json:"tags"`
	}
	if err := r.read(&in); err != nil {
		return err
	}
	t, err := r.template(in.Target)
	if err != nil {
		return err
	}
	all, err := r.tagsOf(t)
	if err != nil {
		return err
	}
	wanted := map[string]bool{}
	for _, tag := range in.Tags {
		switch {
		case tag == defaultTag && t.Current:
			continue
		case tag == defaultTag:
			return unsupported("making an older version of a template the default one")
		case !templateWord.MatchString(tag):
			return refuse(http.StatusBadRequest, "tags: %q must be up to 63 of a-z, 0-9, . _ -", space.Clip(tag))
		}
		wanted[tag], all[tag] = true, true
	}
	if len(all) > maxTags {
		return refuse(http.StatusBadRequest, "tags: template %s would have %d and may have %d: none was set, remove some first", t.Name, len(all), maxTags)
	}
	for tag := range wanted {
		if _, err := r.platform.SetTemplateTag(r.Context(), t.Id, tag); err != nil {
			return err
		}
	}
	answer(w, http.StatusCreated, map[string]any{"tags": in.Tags, "buildID": buildOf(t.Id)})
	return nil
}

// removeTags removes all of the tags or, if that can't be, none.
func (f *Facade) removeTags(w http.ResponseWriter, r *request) error {
	var in struct {
		Name string   `json:"name"`
		Tags []string `json:"tags"`
	}
	if err := r.read(&in); err != nil {
		return err
	}
	t, err := r.template(in.Name)
	if err != nil {
		return err
	}
	has, err := r.tagsOf(t)
	if err != nil {
		return err
	}
	unwanted := map[string]bool{}
	for _, tag := range in.Tags {
		switch {
		case tag == defaultTag:
			return refuse(http.StatusBadRequest, "the tag %s can't be removed: it's what the name alone means", defaultTag)
		case !has[tag]:
			return refuse(http.StatusNotFound, "template %s has no tag %q: none was removed", t.Name, space.Clip(tag))
		}
		unwanted[tag] = true
	}
	for tag := range unwanted {
		if err := r.platform.DeleteTemplateTag(r.Context(), t.Name, tag); err != nil {
			return err
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// listedTemplate is a template in a list, for E2B's command line.
type listedTemplate struct {
	TemplateID    string    `json:"templateID"`
	BuildID       string    `json:"buildID"`
	BuildStatus   string    `json:"buildStatus"`
	CPUCount      int       `json:"cpuCount"`
	MemoryMB      int       `json:"memoryMB"`
	DiskSizeMB    int       `json:"diskSizeMB"`
	Public        bool      `json:"public"`
	Aliases       []string  `json:"aliases"`
	Names         []string  `json:"names"`
	CreatedAt     time.Time `json:"createdAt"`
	UpdatedAt     time.Time `json:"updatedAt"`
	CreatedBy     *string   `json:"createdBy"`
	LastSpawnedAt *string   `json:"lastSpawnedAt"`
	SpawnCount    int       `json:"spawnCount"`
	BuildCount    int       `json:"buildCount"`
	EnvdVersion   string    `json:"envdVersion"`
}

// renderTemplate is a template by the version that its name means.
func renderTemplate(t client.Template, versions int) listedTemplate {
	return listedTemplate{
		TemplateID: t.Name, BuildID: buildOf(t.Id), BuildStatus: map[api.TemplateState]string{api.TemplateStateReady: "uploaded", api.TemplateStateFailed: "error"}[t.State],
		CPUCount: t.Vcpus, MemoryMB: t.MemoryMb, DiskSizeMB: t.DiskMb, Aliases: append([]string{t.Name}, t.Aliases...), Names: []string{t.Name},
		CreatedAt: t.CreatedAt, UpdatedAt: t.CreatedAt, BuildCount: versions, EnvdVersion: envdVersion,
	}
}

func (f *Facade) listTemplates(w http.ResponseWriter, r *request) error {
	all, err := r.platform.ListTemplates(r.Context())
	if err != nil {
		return err
	}
	count := map[string]int{}
	for _, t := range all {
		count[t.Name]++
	}
	out := []listedTemplate{}
	for _, t := range all {
		if t.Current {
			out = append(out, renderTemplate(t, count[t.Name]))
		}
	}
	answer(w, http.StatusOK, out)
	return nil
}

func (f *Facade) getTemplate(w http.ResponseWriter, r *request, name string) error {
	t, err := r.template(name)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, renderTemplate(t, 1))
	return nil
}

// deleteTemplates deletes a template with all its versions; one by its id, alone.
func (f *Facade) deleteTemplates(w http.ResponseWriter, r *request) error {
	name := unescape(r.rest())
	versions, err := r.versions(name)
	if p := new(problem); errors.As(err, &p) && p.Code == http.StatusNotFound {
		return f.deleteSnapshot(w, r, name)
	}
	if err != nil {
		return err
	}
	for _, v := range versions {
		err := r.platform.DeleteTemplate(r.Context(), v.Id)
		if is(err, space.CodeConflict) {
			return refuse(http.StatusBadRequest, "%s", understand(r.Context(), err).Message)
		}
		if err != nil {
			return err
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
