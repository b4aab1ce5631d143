package serve

import (
	"embed"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

//go:embed page/page.html page/page.css page/page.js
var pageFiles embed.FS

// getPage serves the status page and its files, which are static and need no token. The page
// requests the state of the server over the protocol, with the token that the reader enters.
func getPage(w http.ResponseWriter, r *http.Request) error {
	name, kind := "page.html", "text/html; charset=utf-8"
	switch {
	case strings.HasSuffix(r.URL.Path, ".css"):
		name, kind = "page.css", "text/css; charset=utf-8"
	case strings.HasSuffix(r.URL.Path, ".js"):
		name, kind = "page.js", "text/javascript; charset=utf-8"
	}
	b, err := pageFiles.ReadFile("page/" + name)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Content-Type-Options", "nosniff")
	// The page loads from and connects to this server only, and cannot be shown in a frame.
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "+
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	_, err = w.Write(b)
	if err != nil {
		return nil // the client has closed the connection
	}
	return nil
}

const (
	keptErrors = 50   // in lastErrors
	maxError   = 1000 // bytes of an error's text
)

// lastErrors holds the last errors of requests to loaded models.
type lastErrors struct {
	mu   sync.Mutex
	list []errorRecord // oldest first
}

type errorRecord struct {
	Time  time.Time `json:"time"`
	Model string    `json:"model"`
	Error string    `json:"error"`
}

// add appends the error of a request to a model, cut to maxError bytes.
func (l *lastErrors) add(model string, err error) {
	text := cut(err.Error())
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.list) == keptErrors {
		l.list = slices.Delete(l.list, 0, 1)
	}
	l.list = append(l.list, errorRecord{time.Now(), model, text})
}

// cut returns a text of at most maxError bytes, as valid UTF-8.
func cut(text string) string {
	if len(text) > maxError {
		text = text[:maxError] + "…"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// getErrors returns the last errors, newest first.
func (s *Server) getErrors(w http.ResponseWriter, _ *http.Request) error {
	return s.describe(w, &s.describing, func(*reservation) (any, error) {
		s.errors.mu.Lock()
		defer s.errors.mu.Unlock()
		l := slices.Clone(s.errors.list)
		slices.Reverse(l)
		if l == nil {
			l = []errorRecord{}
		}
		return l, nil
	})
}
