package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

const (
	progressAfter = time.Second            // what is quicker needs no word
	progressEvery = 500 * time.Millisecond // between updates of the line
)

// progress keeps one line on a terminal up to date while something takes long. Elsewhere it says nothing.
type progress struct {
	to   io.Writer
	stop chan struct{}
	done sync.WaitGroup

	mu   sync.Mutex
	text string
}

// startProgress begins to wait with the user. end must be called before anything else is written.
func startProgress(to io.Writer, text string) *progress {
	p := &progress{to: to, stop: make(chan struct{}), text: text}
	if isTerminal(to) {
		p.done.Go(p.draw)
	}
	return p
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// say changes the text.
func (p *progress) say(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = text
}

// end clears the line.
func (p *progress) end() {
	close(p.stop)
	p.done.Wait()
}

func (p *progress) draw() {
	began := time.Now()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			if time.Since(began) >= progressAfter {
				fmt.Fprint(p.to, "\r\x1b[K")
			}
			return
		case <-tick.C:
			p.line(time.Since(began))
		}
	}
}

func (p *progress) line(since time.Duration) {
	if since < progressAfter {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.to, "\r\x1b[K%s … %.0f s", p.text, since.Seconds())
}
