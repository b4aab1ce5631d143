package main

import (
	"cmp"
	"context"
	"errors"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/session"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/onnx"
)

// errNotOpened is the result of tryProviders for a library that is available, but has not opened
// the model.
var errNotOpened = errors.New("available; onward check tells whether it opens a model of this size")

// tryProviders opens a model on every provider and returns their errors, nil for success. Native
// libraries open it in a process of their own. Without libraries, they do not: compiling thousands
// of nodes takes them seconds.
func tryProviders(ctx context.Context, path string, m *onnx.Model, own session.ProviderOptions,
	libraries bool) map[string]error {
	r := map[string]error{}
	for _, p := range onward.Providers() {
		opts, err := session.Options(p, 0, own)
		if err == nil && callsLibrary(p) {
			if err = driver.Lookup(p).Available(opts.Providers[0]); err == nil && libraries {
				_, err = runProbe(ctx, path, p, &benchOptions{own: own})
			} else {
				err = cmp.Or(err, errNotOpened)
			}
		} else if err == nil {
			var s *onward.Session
			if s, err = onward.OpenModel(ctx, m, opts); err == nil {
				err = s.Close()
			}
		}
		r[p] = err
	}
	return r
}

func callsLibrary(provider string) bool {
	_, ok := driver.Lookup(provider).(driver.LibraryUser)
	return ok
}
