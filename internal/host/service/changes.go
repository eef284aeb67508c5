package service

import "sync"

// Changes tells any number of waiters that something has changed. Several changes before a waiter looks are one to it.
type Changes struct {
	mu   sync.Mutex
	next chan struct{} // closed at the next change
}

// NewChanges returns one without any change yet.
func NewChanges() *Changes { return &Changes{next: make(chan struct{})} }

// Notify says that something has changed. It doesn't block.
func (c *Changes) Notify() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.next)
	c.next = make(chan struct{})
}

// Next returns a channel that is closed at the next change. Take it before looking at what may change.
func (c *Changes) Next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next
}
