package template

import (
	"errors"
	"fmt"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/peer"
)

// stepError is a failure and where it was: 0 is the source, and what comes after the last step counts as one more.
type stepError struct {
	step int
	err  error
}

func (e *stepError) Error() string { return fmt.Sprintf("step %d: %v", e.step, e.err) }
func (e *stepError) Unwrap() error { return e.err }

// at says where an error was.
func at(step int, err error) error {
	var e *stepError
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &stepError{step: step, err: err}
}

// AfterSteps stands for the number of a step in a failure of what comes after the last one: the start command, the ready check, the snapshot.
const AfterSteps = -1

// stepOf is where a build failed.
func stepOf(err error) int {
	var e *stepError
	if errors.As(err, &e) {
		return e.step
	}
	return 0
}

// failedStep is the step of an order that a build failed in.
func (o Order) failedStep(err error) int {
	if n := stepOf(err); n <= len(o.Steps) {
		return n
	}
	return AfterSteps
}

// failure is what a user is told of a failed build.
func failure(err error) *space.Error {
	e := peer.Public(err)
	if e.Code == space.CodeInternal {
		return space.Errorf(space.CodeInternal, "the node could not build the template; the operator's log has the cause: %w", err)
	}
	return e
}
