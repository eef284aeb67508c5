package e2b

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/client"
)

// maxPage is the most that a page has, of sandboxes and of snapshots.
const maxPage = 100

// listRunning is the list of old SDKs: all that run, on one page.
func (f *Facade) listRunning(w http.ResponseWriter, r *request) error {
	filter, err := listFilter(r.URL.Query())
	if err != nil {
		return err
	}
	filter.States = running
	out := []listed{}
	for s, err := range r.platform.ListSandboxes(r.Context(), filter) {
		if err != nil {
			return err
		}
		out = append(out, render(s))
	}
	answer(w, http.StatusOK, out)
	return nil
}

func (f *Facade) listSandboxes(w http.ResponseWriter, r *request) error {
	q := r.URL.Query()
	filter, err := listFilter(q)
	if err != nil {
		return err
	}
	limit := maxPage
	if text := q.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxPage {
			return refuse(http.StatusBadRequest, "limit is %q: it must be 1 to %d", space.Clip(text), maxPage)
		}
	}
	items, next, err := r.platform.ListSandboxPage(r.Context(), filter, q.Get("nextToken"), limit)
	if is(err, space.CodeInvalid) {
		return refuse(http.StatusBadRequest, "nextToken: %s", understand(r.Context(), err).Message)
	}
	if err != nil {
		return err
	}
	out := []listed{}
	for _, s := range items {
		out = append(out, render(s))
	}
	if next != "" {
		w.Header().Set("X-Next-Token", next)
	}
	answer(w, http.StatusOK, out)
	return nil
}

// listFilter reads which sandboxes are asked for.
func listFilter(q url.Values) (client.SandboxFilter, error) {
	f := client.SandboxFilter{}
	for _, name := range []string{"startedAfter", "template"} {
		if q.Get(name) != "" {
			return f, unsupported("lists by " + name)
		}
	}
	if order := q.Get("order"); order != "" && order != "desc" {
		return f, unsupported("lists in another order than from the newest")
	}
	for _, word := range words(q["state"]) {
		switch word {
		case stateRunning:
			f.States = append(f.States, running...)
		case statePaused:
			f.States = append(f.States, paused...)
		default:
			return f, refuse(http.StatusBadRequest, "state is %q: it must be %s or %s", space.Clip(word), stateRunning, statePaused)
		}
	}
	if f.States == nil {
		f.States = append(append(f.States, running...), paused...)
	}
	f.States = slices.Compact(slices.Sorted(slices.Values(f.States)))
	if text := q.Get("metadata"); text != "" {
		var err error
		if f.Metadata, err = metadataFilter(text); err != nil {
			return f, err
		}
	}
	return f, nil
}

// words reads a list that is given by commas, by repetition, or both.
func words(values []string) []string {
	var out []string
	for _, v := range values {
		for word := range strings.SplitSeq(v, ",") {
			if word != "" {
				out = append(out, word)
			}
		}
	}
	return out
}

// metadataFilter reads a filter by metadata, which is a form whose names and values were percent-encoded before.
func metadataFilter(text string) (map[string]string, error) {
	form, err := url.ParseQuery(text)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "metadata: %v", err)
	}
	out := map[string]string{}
	for name, values := range form {
		plain, err := url.QueryUnescape(name)
		value, errValue := url.QueryUnescape(values[0])
		if err != nil || errValue != nil || len(values) != 1 {
			return nil, refuse(http.StatusBadRequest, "metadata: %q can't be read", space.Clip(text))
		}
		out[plain] = value
	}
	return out, nil
}
