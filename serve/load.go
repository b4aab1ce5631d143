package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/onward-ml/onward/serve/inference"
)

// maxTries bounds how often a model is loaded whose files change meanwhile.
const maxTries = 5

// openVersions opens the versions of a model whose files are not those of old. It returns all
// versions to serve, and why others cannot be opened. A version that is opened while its files
// change can have some of the old files: it is opened again, and is an error if that goes on.
func (s *Server) openVersions(ctx context.Context, name string, override *inference.ModelConfig,
	old map[int64]*version) (fresh map[int64]*version, failed map[int64]string, errs []error) {
	memory := &reservation{s: s} // of the configuration, while the models of an ensemble are loaded, too
	defer memory.release()
	candidates, err := s.candidates(name, override, memory)
	for tries := 1; ; tries++ {
		fresh, failed, errs = s.openCandidates(ctx, name, candidates, old)
		if err != nil {
			errs = append(errs, err)
			failed[0] = cut(err.Error())
		}
		again, errAgain := s.candidates(name, override, memory)
		if (err == nil) == (errAgain == nil) && slices.EqualFunc(candidates, again, func(a, b candidate) bool {
			return a.number == b.number && a.signature == b.signature
		}) || ctx.Err() != nil {
			return fresh, failed, errs
		}
		for n, v := range fresh {
			if old[n] != v {
				s.retire(v, false)
				if delete(fresh, n); old[n] != nil {
					fresh[n] = old[n]
				}
			}
		}
		if tries == maxTries {
			err := fmt.Errorf("the files have changed %d times %w", tries, errChanging)
			return fresh, map[int64]string{0: err.Error()}, []error{err}
		}
		candidates, err = again, errAgain
	}
}

// errChanging is wrapped by the error for files that change in each load.
var errChanging = errors.New("while they were loaded")

// openCandidates opens candidates whose signatures are not those of old, and returns all versions
// to serve.
func (s *Server) openCandidates(ctx context.Context, name string, candidates []candidate,
	old map[int64]*version) (fresh map[int64]*version, failed map[int64]string, errs []error) {
	fresh, failed = map[int64]*version{}, map[int64]string{}
	s.stack = append(s.stack, name)
	defer func() { s.stack = s.stack[:len(s.stack)-1] }()
	for _, c := range candidates {
		begin := time.Now()
		err := s.loadSteps(ctx, c.config)
		signature := c.signature + s.stepsSignature(c.config)
		if v := old[c.number]; err == nil && v != nil && v.signature == signature {
			fresh[c.number] = v
			continue
		}
		var v *version
		if err == nil {
			v, err = s.openVersion(ctx, name, c.number, c.path, c.data, c.dir, c.config)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("version %d: %w", c.number, err))
			failed[c.number] = cut(err.Error())
			if v := old[c.number]; v != nil {
				fresh[c.number] = v // the version that is served goes on
			}
			continue
		}
		v.signature = signature
		s.metrics.loaded(v, time.Since(begin))
		fresh[c.number] = v
	}
	return fresh, failed, errs
}
