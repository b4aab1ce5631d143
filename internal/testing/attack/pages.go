package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

func pageTargets(*attack) []string { return slices.Sorted(maps.Keys(restBodies)) }

// tryPages sends a request that a page of another site can make a browser send without asking the
// server: to the address of the server, or to a name that resolves to it. The server refuses it. It
// answers the same request of a program and of its own page.
func tryPages(a *attack, target string, seed uint64) (*attempt, error) {
	r := rand.New(rand.NewPCG(seed, hash(target)))
	s, err := a.open()
	if err != nil {
		return nil, err
	}
	draw := func(of ...string) string { return of[r.IntN(len(of))] }
	_, port, _ := net.SplitHostPort(s.http)
	site := draw("https://evil.example", "http://evil.example:"+port, "http://localhost.evil.example:"+port,
		"http://127.0.0.1.nip.io:"+port, "http://127.0.0.1:1", "https://127.0.0.1:"+port+"0", "null", "http://[::1]:1")
	foreign := map[string]string{"Content-Type": draw("text/plain", "application/x-www-form-urlencoded",
		"multipart/form-data; boundary=a", "text/plain;application/json", "")}
	switch r.IntN(3) {
	case 0: // across sites
		foreign["Origin"] = site
	case 1:
		foreign["Sec-Fetch-Site"], foreign["Origin"] = draw("cross-site", "same-site"), site
	default: // the name of the site resolves to the server
		name := draw("evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "localhosts",
			"0x7f000001.evil.example")
		foreign["Host"], foreign["Origin"] = name+":"+port, "http://"+name+":"+port
		foreign["Sec-Fetch-Site"] = "same-origin"
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c := s.client(false)
	defer c.CloseIdleConnections()
	body := restBodies[target]
	code, text, err := send(ctx, c, "http://"+s.http+target, strings.NewReader(body), foreign)
	if err != nil {
		return nil, err
	}
	if code != http.StatusForbidden && code != http.StatusUnsupportedMediaType {
		return nil, fmt.Errorf("a page of another site gets %d %.200s with %v", code, text, foreign)
	}
	own := map[string]string{"Content-Type": "application/json"}
	if r.IntN(2) == 0 {
		own["Origin"], own["Sec-Fetch-Site"] = "http://"+s.http, "same-origin"
	}
	if code, text, err = send(ctx, c, "http://"+s.http+target, strings.NewReader(body), own); err != nil {
		return nil, err
	}
	if code == http.StatusForbidden || code == http.StatusUnsupportedMediaType {
		return nil, fmt.Errorf("the server's own page gets %d %.200s with %v", code, text, own)
	}
	if strings.HasSuffix(target, "/unload") {
		code, text, err = send(ctx, c, "http://"+s.http+"/v2/repository/models/m/load", nil, own)
		if err == nil && code != 200 {
			err = fmt.Errorf("the model is not loaded again: %d %.200s", code, text)
		}
	}
	return &attempt{}, err
}
