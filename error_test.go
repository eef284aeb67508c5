package space_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	space "github.com/space-platform/space"
)

func TestErrorCodes(t *testing.T) {
	for _, c := range space.Codes() {
		if s := c.HTTPStatus(); s < 400 || s > 599 {
			t.Errorf("code %s answers %d", c, s)
		}
	}
	err := fmt.Errorf("create: %w", space.Errorf(space.CodeUnavailable, "the node is away: %w", io.EOF))
	if space.CodeOf(err) != space.CodeUnavailable || !errors.Is(err, io.EOF) {
		t.Errorf("%v: code %s", err, space.CodeOf(err))
	}
	if space.CodeOf(nil) != "" || space.CodeOf(io.EOF) != space.CodeInternal || space.Code("new").HTTPStatus() != 500 {
		t.Error("nil, foreign and unknown errors must have the codes that the comments promise")
	}
}
