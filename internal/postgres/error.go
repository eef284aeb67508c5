package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	space "github.com/space-platform/space"
)

// explain says what was being done, and gives an error of the connection or the server the code that a caller can act on.
func explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	var e *space.Error
	if errors.As(err, &e) {
		return err
	}
	switch code := codeOf(err); code {
	case space.CodeTimeout:
		return &space.Error{Code: code, Message: "the database took too long; try again", Err: fmt.Errorf("%s: %w", doing, err)}
	case space.CodeUnavailable:
		return &space.Error{Code: code, Message: "the database can't be reached right now; try again", Err: fmt.Errorf("%s: %w", doing, err)}
	default:
		return fmt.Errorf("%s: %w", doing, err)
	}
}

func codeOf(err error) space.Code {
	var server *pgconn.PgError
	var connect *pgconn.ConnectError
	var network net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return space.CodeInternal
	case errors.As(err, &server):
		return codeOfServer(server.Code)
	case errors.Is(err, context.DeadlineExceeded):
		return space.CodeTimeout
	case errors.As(err, &connect), errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, pgconn.ErrConnClosed), pgconn.SafeToRetry(err):
		return space.CodeUnavailable
	default:
		return space.CodeInternal
	}
}

// codeOfServer maps SQLSTATEs: a cancelled statement, a server that stops or is short of something, a lost race.
func codeOfServer(state string) space.Code {
	if len(state) != 5 {
		return space.CodeInternal
	}
	switch state {
	case "57014":
		return space.CodeTimeout
	case "55P03", "40001", "40P01":
		return space.CodeUnavailable
	}
	switch state[:2] {
	case "08", "53", "57":
		return space.CodeUnavailable
	default:
		return space.CodeInternal
	}
}

// missing turns "no rows" into not_found with the words a user knows. It doesn't repeat the id, so that what is another project's is
// answered byte for byte like what doesn't exist.
func missing(err error, what string) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return space.Errorf(space.CodeNotFound, "the %s does not exist", what)
	}
	return err
}

// failure reads the two columns of an error; nil if there is none.
func failure(code, message *string) *space.Error {
	if code == nil || message == nil {
		return nil
	}
	return &space.Error{Code: space.Code(*code), Message: *message}
}

// fieldFailure reads an error that may name a field of its request.
func fieldFailure(code, message, field *string) *space.Error {
	e := failure(code, message)
	if e != nil {
		e.Field = text(field)
	}
	return e
}

func fieldColumn(e *space.Error) *string {
	if e == nil {
		return nil
	}
	return orNull(e.Field)
}

// failureColumns writes an error to its two columns.
func failureColumns(e *space.Error) (code, message *string) {
	if e == nil {
		return nil, nil
	}
	c := string(e.Code)
	return &c, &e.Message
}
