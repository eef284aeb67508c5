package e2b

import (
	"context"
	"net/http"
	"slices"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/client"
)

// open is a sandbox with the token that opens it.
func (f *Facade) open(ctx context.Context, r *request, s client.Sandbox) (sandbox, error) {
	by := ownerOf(r.key)
	a, had := f.tokens.issuedTo(by, s.Id)
	if !had {
		var err error
		if a, err = f.issue(ctx, r, s.Id); err != nil {
			return sandbox{}, err
		}
		f.tokens.add(a, by)
	}
	return sandbox{
		TemplateID: s.Template, Alias: s.Template, SandboxID: publicID(s.Id), ClientID: clientID, EnvdVersion: envdVersion, EnvdAccessToken: a.String(), Domain: domain,
	}, nil
}

// tokenName is that of the tokens that are issued here.
const tokenName = "e2b"

// issue issues a token. An API key gets the same one for a day, unless it was revoked. Where there are as many as a sandbox may have, the oldest one that was
// issued here ends.
func (f *Facade) issue(ctx context.Context, r *request, id string) (access, error) {
	t, err := r.platform.RepeatSandboxToken(ctx, id, tokenName, tokenLife, repeatKey(id, r.key))
	if is(err, space.CodeQuotaExceeded) {
		if err := r.revokeOldest(ctx, id); err != nil {
			return access{}, err
		}
		t, err = r.platform.RepeatSandboxToken(ctx, id, tokenName, tokenLife, repeatKey(id, r.key))
	}
	if err == nil && f.tokens.isVoid(access{id, t.Secret}) {
		t, err = r.platform.CreateSandboxToken(ctx, id, tokenName, tokenLife)
	}
	return access{id, t.Secret}, err
}

// revokeOldest revokes the oldest token of a sandbox that was issued here.
func (r *request) revokeOldest(ctx context.Context, id string) error {
	all, err := r.platform.ListSandboxTokens(ctx, id)
	if err != nil {
		return err
	}
	for _, t := range slices.Backward(all) { // they come from the newest
		if t.Name != nil && *t.Name == tokenName {
			return r.platform.RevokeSandboxToken(ctx, id, t.Id)
		}
	}
	return refuse(http.StatusTooManyRequests, "the sandbox has as many tokens as it may: revoke some of them")
}
