package client

import (
	"context"
	"errors"
	"slices"
	"time"
)

const (
	planeLife    = 15 * time.Minute // of a token that a Plane issues; what it has begun to transfer may take longer
	planeRenewal = 5 * time.Minute  // before its end another one is issued
	watchLife    = 24 * time.Hour   // of a token that is issued for one watch, which can't go on with another
	revokeTime   = 10 * time.Second // for a token to be revoked, whatever has ended meanwhile
)

// pass is the token that a Plane shows: one that was given, or one of its own, which is replaced in time and revoked in the end.
type pass struct {
	issue  func(ctx context.Context, life time.Duration) (SandboxTokenCreated, error) // nil: the token was given, and there's no other
	revoke func(ctx context.Context, token string) error

	turn   chan struct{} // held by who reads or changes what follows
	secret string
	until  time.Time     // when another is to be issued
	issued []issuedToken // those that may be valid; a handful, as each is for so much longer than it's shown
}

// issuedToken is a token that is to be revoked.
type issuedToken struct {
	id      string
	expires time.Time // by the clock here, which may have been stopped in between: so without a monotonic part
}

func givenPass(secret string) *pass { return &pass{secret: secret, turn: make(chan struct{}, 1)} }

// take waits for the turn.
func (p *pass) take(ctx context.Context) error {
	select {
	case p.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// first issues the first token.
func (p *pass) first(ctx context.Context) (SandboxTokenCreated, error) {
	if err := p.take(ctx); err != nil {
		return SandboxTokenCreated{}, err
	}
	defer func() { <-p.turn }()
	return p.next(ctx)
}

// show returns a token that is valid for a while, as far as can be known here.
func (p *pass) show(ctx context.Context) (string, error) {
	if err := p.take(ctx); err != nil {
		return "", err
	}
	defer func() { <-p.turn }()
	if p.issue == nil || now().Before(p.until) {
		return p.secret, nil
	}
	t, err := p.next(ctx)
	return t.Secret, err
}

// next issues the token that is shown from now on. It's called in turn, as is add.
func (p *pass) next(ctx context.Context) (SandboxTokenCreated, error) {
	t, err := p.add(ctx, planeLife)
	if err == nil {
		p.secret, p.until = t.Secret, now().Add(planeLife-planeRenewal)
	}
	return t, err
}

// add issues a token that is to be revoked.
func (p *pass) add(ctx context.Context, life time.Duration) (SandboxTokenCreated, error) {
	t, err := p.issue(ctx, life)
	if err == nil {
		p.issued = slices.DeleteFunc(p.issued, func(t issuedToken) bool { return now().After(t.expires) })
		p.issued = append(p.issued, issuedToken{t.Token.Id, now().Add(life)})
	}
	return t, err
}

// renewal returns what replaces the token that was refused; nil if nothing can.
func (p *pass) renewal() func(context.Context) error {
	if p.issue == nil {
		return nil
	}
	return func(ctx context.Context) error {
		if err := p.take(ctx); err != nil {
			return err
		}
		p.until = time.Time{}
		<-p.turn
		_, err := p.show(ctx)
		return err
	}
}

// lend returns a token for one stream that may last as long as life, and what takes it back. One that was given lasts as long as it does.
func (p *pass) lend(ctx context.Context, life time.Duration) (secret string, back func(), err error) {
	if err := p.take(ctx); err != nil {
		return "", nil, err
	}
	defer func() { <-p.turn }()
	if p.issue == nil {
		return p.secret, func() {}, nil
	}
	t, err := p.add(ctx, life)
	if err != nil {
		return "", nil, err
	}
	return t.Secret, func() { p.takeBack(ctx, t.Token.Id) }, nil
}

// takeBack revokes one token; if that fails it's for close to do.
func (p *pass) takeBack(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTime)
	defer cancel()
	if p.revoke(ctx, id) != nil || p.take(ctx) != nil {
		return
	}
	defer func() { <-p.turn }()
	p.issued = slices.DeleteFunc(p.issued, func(t issuedToken) bool { return t.id == id })
}

// close revokes all that was issued and may be valid. What couldn't be revoked is tried again by the next close.
func (p *pass) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTime)
	defer cancel()
	if err := p.take(ctx); err != nil {
		return err
	}
	defer func() { <-p.turn }()
	var failed []issuedToken
	var errs []error
	for _, t := range p.issued {
		if err := p.revoke(ctx, t.id); err != nil && !gone(err) && now().Before(t.expires) {
			failed, errs = append(failed, t), append(errs, err)
		}
	}
	p.issued, p.until = failed, time.Time{}
	return errors.Join(errs...)
}

// gone tells whether an error says that there's nothing left to revoke: the sandbox has been deleted, and its tokens with it.
func gone(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == "not_found"
}

// now is the wall clock, which goes on while a machine sleeps.
func now() time.Time { return time.Now().Round(0) }

// refusedToken tells whether an error says that another token is needed: the one that was shown has expired, was revoked or is forgotten.
func refusedToken(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.Code == "token_expired" || e.Code == "unauthenticated")
}
