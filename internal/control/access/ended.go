package access

import (
	"context"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/token"
)

// MaxMaterials bounds a question about materials that may have ended.
const MaxMaterials = 256

// Material is what has opened something in a sandbox: a token of it or of one of its sessions, or a signed URL.
type Material struct {
	Token   string
	Sandbox string // of a signed URL, as is the next
	URL     FileURL
}

// Ended is a material that opens no more what it did.
type Ended struct {
	Index   int  // among those that were asked about
	Revoked bool // else it has expired
}

// FindEnded returns those materials that were revoked, or have expired. An attachment token ends with the sandbox token that issued it, and a
// signed URL by being revoked: their own times are for beginning something. What isn't known isn't returned.
func (a *Access) FindEnded(ctx context.Context, materials []Material) ([]Ended, error) {
	if len(materials) > MaxMaterials {
		return nil, space.FieldErrorf("materials", "are %d: at most %d are allowed", len(materials), MaxMaterials)
	}
	out, err := a.endedTokens(ctx, materials)
	if err != nil {
		return nil, err
	}
	for i, m := range materials {
		if m.Token != "" {
			continue
		}
		switch err := a.checkSignature(ctx, m.Sandbox, m.URL); {
		case space.CodeOf(err) == space.CodeUnauthenticated:
			out = append(out, Ended{i, true})
		case err != nil:
			return nil, err
		}
	}
	return out, nil
}

func (a *Access) endedTokens(ctx context.Context, materials []Material) ([]Ended, error) {
	var hashes []record.TokenHash
	index := map[record.TokenHash]int{}
	for i, m := range materials {
		if m.Token != "" {
			hashes = append(hashes, token.Hash(m.Token))
			index[token.Hash(m.Token)] = i
		}
	}
	if len(hashes) == 0 {
		return nil, nil
	}
	rows, err := a.store.EndedTokens(ctx, hashes)
	var out []Ended
	for _, r := range rows {
		out = append(out, Ended{index[r.Hash], r.Revoked})
	}
	return out, err
}
