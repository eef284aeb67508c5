// Package failure gives the kernel's errors about files the platform's codes, and words that a caller of the API can do something with.
package failure

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	space "github.com/space-platform/space"
)

// meaning is what an error number means to a caller.
type meaning struct {
	code space.Code
	text string
}

var meanings = map[syscall.Errno]meaning{
	syscall.ENOENT:       {space.CodeNotFound, "no such file or directory"},
	syscall.ENXIO:        {space.CodeConflict, "is a special file"},
	syscall.EEXIST:       {space.CodeConflict, "exists already"},
	syscall.ENOTDIR:      {space.CodeConflict, "a part of the path is not a directory"},
	syscall.EISDIR:       {space.CodeConflict, "is a directory"},
	syscall.ENOTEMPTY:    {space.CodeConflict, "the directory is not empty"},
	syscall.EBUSY:        {space.CodeConflict, "is in use, or something is mounted there"},
	syscall.ETXTBSY:      {space.CodeConflict, "is a program that runs"},
	syscall.EXDEV:        {space.CodeConflict, "lies on another file system"},
	syscall.ELOOP:        {space.CodeConflict, "too many symbolic links"},
	syscall.EMLINK:       {space.CodeConflict, "too many links"},
	syscall.EACCES:       {space.CodeForbidden, "the user may not do that"},
	syscall.EPERM:        {space.CodeForbidden, "the user may not do that"},
	syscall.EROFS:        {space.CodeForbidden, "the file system is read-only"},
	syscall.EFBIG:        {space.CodeTooLarge, "larger than the file system allows"},
	syscall.EOVERFLOW:    {space.CodeTooLarge, "too large"},
	syscall.ENAMETOOLONG: {space.CodeInvalid, "a path has at most 4095 bytes and a name 255"},
	syscall.EINVAL:       {space.CodeInvalid, "the file system doesn't allow that"},
	syscall.ENOSPC:       {space.CodeGuest, "the sandbox's disk is full"},
	syscall.EDQUOT:       {space.CodeGuest, "the user's share of the disk is full"},
	syscall.ENOMEM:       {space.CodeGuest, "the sandbox's memory is full"},
	syscall.EIO:          {space.CodeGuest, "the sandbox's disk has an error"},
	syscall.EAGAIN:       {space.CodeGuest, "there is nothing to read right now"},
	syscall.EMFILE:       {space.CodeUnavailable, "too many files are open"},
	syscall.ENFILE:       {space.CodeUnavailable, "too many files are open"},
}

// Of says what was being done, to what, and why it failed. An error that has a code already keeps it; nil stays nil.
func Of(doing, path string, err error) error {
	var coded *space.Error
	if err == nil || errors.As(err, &coded) {
		return err
	}
	var number syscall.Errno
	if !errors.As(err, &number) {
		return other(doing, path, err)
	}
	m, ok := meanings[number]
	if !ok {
		m = meaning{space.CodeGuest, number.Error()}
	}
	var in *fs.PathError
	if errors.As(err, &in) && !filepath.IsAbs(in.Path) { // of something below the path
		path = filepath.Join(path, in.Path)
	}
	e := &space.Error{Code: m.code, Message: fmt.Sprintf("%s %s: %s", doing, Clip(path), m.text), Err: err}
	if m.code == space.CodeInvalid {
		e.Field = "path"
	}
	return e
}

// other is an error that no system call made.
func other(doing, path string, err error) error {
	var in *fs.PathError
	if errors.As(err, &in) { // the library refuses a path that leads out of a root
		return &space.Error{Code: space.CodeForbidden, Message: fmt.Sprintf("%s %s: %s", doing, Clip(path), in.Err), Err: err}
	}
	var link *os.LinkError
	if errors.As(err, &link) {
		return &space.Error{Code: space.CodeForbidden, Message: fmt.Sprintf("%s %s: %s", doing, Clip(path), link.Err), Err: err}
	}
	return err
}

// clipBytes bounds how much of a path an error repeats.
const clipBytes = 256

// Clip makes a path fit for an error's text.
func Clip(path string) string {
	if len(path) > clipBytes {
		path = path[:clipBytes] + "…"
	}
	return strings.ToValidUTF8(path, "�")
}
