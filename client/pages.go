package client

import (
	"iter"
	"net/http"
)

// pages asks for one page after the other and yields their items. An error ends them.
func pages[P, T any](ask func(cursor *string) (*http.Response, error), read func(P) (items []T, next *string)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		for cursor := (*string)(nil); ; {
			page, err := decode[P](ask(cursor))
			if err != nil {
				yield(none, err)
				return
			}
			items, next := read(page)
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if cursor = next; cursor == nil {
				return
			}
		}
	}
}
