package serve

import (
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"
)

// guard refuses the requests that web pages of other sites make browsers send.
//
//   - Host: a site can give its name the address of the server (DNS rebinding), and is then of the
//     same origin. If hosts is not nil, a request must name one of them, localhost or an IP
//     address.
//   - Origin: a page can send requests without reading the response (CSRF). A request that changes
//     state and whose Origin or Sec-Fetch-Site is another site is refused.
func (s *Server) guard(h http.Handler, hosts []string) http.Handler {
	origin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := origin.Check(r)
		switch {
		case hosts != nil && !knownHost(r.Host, hosts):
			err = errorf(Forbidden, "the server is not known as %s; --allowed-host adds a name", quote(r.Host))
		case err != nil:
			err = errorf(Forbidden, "requests from pages of %s are not allowed", quote(r.Header.Get("Origin")))
		default:
			h.ServeHTTP(w, r)
			return
		}
		s.serveHTTP(w, r, func(http.ResponseWriter, *http.Request) error { return err }, plainError)
	})
}

// knownHost reports whether a Host header names the server: with one of hosts, or with a name below
// localhost or an IP address, for which no name server answers.
func knownHost(host string, hosts []string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost") ||
		net.ParseIP(strings.Trim(host, "[]")) != nil ||
		slices.ContainsFunc(hosts, func(h string) bool { return h == "*" || strings.EqualFold(h, host) })
}

// checkContentType refuses content types other than JSON for requests that control
// the server, except the type that curl sends by default. Pages of other sites can
// send text/plain without asking.
func checkContentType(r *http.Request) error {
	kind := r.Header.Get("Content-Type")
	if kind == "" || r.Method != http.MethodPost {
		return nil
	}
	switch media, _, err := mime.ParseMediaType(kind); {
	case err == nil && (media == "application/json" || strings.HasSuffix(media, "+json")):
	case err == nil && (media == "application/octet-stream" || media == "application/x-www-form-urlencoded"):
	default:
		return errorf(UnsupportedMedia, "Content-Type %s is not supported, want application/json", quote(kind))
	}
	return nil
}
