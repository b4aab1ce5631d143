package serve

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// TestRequestsOfOtherSites checks that web pages of other sites can neither control the server nor,
// under a name that they give its address, be of its origin.
func TestRequestsOfOtherSites(t *testing.T) {
	repo := writeRepo(t, map[string][]byte{"m/1/model.onnx": scaled(t, 1)})
	s := newServer(t, repo,
		&Options{AllowModelControl: true, AllowSharedMemory: true, Hosts: []string{"models.example"}})
	for _, c := range []struct {
		name, host string
		headers    []string
		code       int
	}{
		{"no Origin", "127.0.0.1:8000", nil, 200},
		{"curl -d", "localhost:8000", []string{"Content-Type", "application/x-www-form-urlencoded"}, 200},
		{"JSON", "[::1]:8000", []string{"Content-Type", "application/json; charset=utf-8"}, 200},
		{"a page of the server", "127.0.0.1:8000", []string{"Origin", "http://127.0.0.1:8000", "Content-Type", "application/json"}, 200},
		{"an allowed name", "models.example", nil, 200},
		{"a rebound name", "evil.example", []string{"Origin", "https://evil.example", "Content-Type", "text/plain"}, 403},
		{"a rebound name without Origin", "evil.example:8000", nil, 403},
		{"a name that ends like localhost", "evillocalhost", nil, 403},
		{"another origin", "127.0.0.1:8000", []string{"Origin", "https://evil.example"}, 403},
		{"another port", "127.0.0.1:8000", []string{"Origin", "http://127.0.0.1:9000"}, 403},
		{"no origin at all", "127.0.0.1:8000", []string{"Origin", "null"}, 403},
		{"another site", "127.0.0.1:8000", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"text", "127.0.0.1:8000", []string{"Content-Type", "text/plain"}, 415},
		{"a form with files", "127.0.0.1:8000", []string{"Content-Type", "multipart/form-data; boundary=a"}, 415},
	} {
		for _, path := range []string{"/v2/repository/index", "/v2/repository/models/m/load", "/v2/logging",
			"/v2/trace/setting", "/v2/systemsharedmemory/unregister"} {
			r := httptest.NewRequest("POST", path, strings.NewReader("{}"))
			r.Host = c.host
			for i := 0; i < len(c.headers); i += 2 {
				r.Header.Set(c.headers[i], c.headers[i+1])
			}
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, r)
			if w.Code != c.code {
				t.Errorf("%s, POST %s: %d %.200s, want %d", c.name, path, w.Code, w.Body, c.code)
			}
		}
	}
	r := httptest.NewRequest("GET", "/v2/models/m", nil)
	r.Host = "evil.example"
	w := httptest.NewRecorder()
	if s.Handler().ServeHTTP(w, r); w.Code != 403 {
		t.Errorf("GET under a rebound name: %d, want 403", w.Code)
	}
	s = newServer(t, repo, &Options{MetricsHosts: []string{}})
	for host, code := range map[string]int{"evil.example": 403, "localhost:8002": 200, "127.0.0.1:8002": 200} {
		r := httptest.NewRequest("GET", "/metrics", nil)
		r.Host = host
		w := httptest.NewRecorder()
		if s.MetricsHandler().ServeHTTP(w, r); w.Code != code {
			t.Errorf("GET /metrics of %s: %d, want %d", host, w.Code, code)
		}
	}
}

// TestJSONMembersAreExact checks that members are the protocol's to the letter, and given once.
func TestJSONMembersAreExact(t *testing.T) {
	s := one(t, scaled(t, 1))
	const x = `{"name":"x","shape":[1,2],"datatype":"FP32","data":[1,2]}`
	for _, body := range []string{
		`{"Inputs":[` + x + `]}`,
		`{"inputs":[],"inputs":[` + x + `]}`,
		`{"inputs":[` + x + `],"\u0069nputs":[]}`,
		`{"inputs":[` + strings.Replace(x, `"name"`, `"NAME"`, 1) + `]}`,
		`{"inputs":[` + strings.Replace(x, `"data"`, `"shape":[2,1],"data"`, 1) + `]}`,
		`{"inputs":[` + x + `],"parameters":{"priority":1,"priority":2}}`,
		`{"inputs":[` + x + `],"outputs":[{"name":"y","name":"z"}]}`,
	} {
		refused(t, s, body, 400, "member")
	}
	refused(t, s, `{"inputs":[`+x+`],}`, 400, "JSON")
	refused(t, s, `{"inputs":[`+x+`]`, 400, "JSON")
	refused(t, s, `{"inputs":[`+x+` `+x+`]}`, 400, "JSON")
	refused(t, s, `{"id":"`+"\x01"+`"}`, 400, "JSON")
	refused(t, s, `{"parameters":{"priority":01}}`, 400, "JSON")
}
