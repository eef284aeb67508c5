// Package wake tells waiters inside the process that a record has changed, so that nobody waits for the next poll. A call is only a
// hint: it carries no news, may come for nothing, and isn't heard by other processes. Whoever waits reads the record and polls slowly.
package wake

import "sync"

// Bell wakes those who listen for a key: the id of an operation or a sandbox, or a node's key. The zero value is ready to use, by
// any number of goroutines.
type Bell struct {
	mu        sync.Mutex // guards listeners
	listeners map[string]map[chan struct{}]bool
}

// Node is the key under which a node waits for orders.
func Node(name string) string { return "node/" + name }

// Events is the key under which readers wait for what happens in a project.
func Events(project string) string { return "events/" + project }

// Deadlines is the key under which it's told that a sandbox's deadline has been set.
const Deadlines = "deadlines"

// Listen returns a channel that receives once or more after each Ring for key, until stop is called. Listen before reading what is
// waited for; then no change in between is missed.
func (b *Bell) Listen(key string) (rung <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1) // one pending call is enough: the listener reads everything anew
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.listeners == nil {
		b.listeners = map[string]map[chan struct{}]bool{}
	}
	if b.listeners[key] == nil {
		b.listeners[key] = map[chan struct{}]bool{}
	}
	b.listeners[key][c] = true
	return c, func() { b.forget(key, c) }
}

func (b *Bell) forget(key string, c chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.listeners[key], c)
	if len(b.listeners[key]) == 0 {
		delete(b.listeners, key)
	}
}

// Ring wakes the listeners of the keys. It never waits.
func (b *Bell) Ring(keys ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, key := range keys {
		for c := range b.listeners[key] {
			select {
			case c <- struct{}{}:
			default: // it hasn't read the last one yet
			}
		}
	}
}
