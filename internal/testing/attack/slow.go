package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"time"
)

// unfinished lists requests that a client does not finish: the bytes that it sends, and whether
// they are for gRPC.
var unfinished = map[string]struct {
	grpc bool
	send func(r *rand.Rand) []byte
}{
	"header": {false, func(r *rand.Rand) []byte {
		h := "POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + token + "\r\nX-A: "
		return []byte(h[:1+r.IntN(len(h)-1)])
	}},
	"body": {false, func(r *rand.Rand) []byte {
		body := jsonFlood(r, restBodies["/v2/models/m/infer"], 1<<r.IntN(22))
		return append(restHeader(fmt.Sprintf("Content-Length: %d", len(body)+1)), body...)
	}},
	"chunks": {false, func(r *rand.Rand) []byte {
		body := strings.Repeat("1\r\n{\r\n", 1<<r.IntN(16))
		return append(restHeader("Transfer-Encoding: chunked"), body...)
	}},
	"body of gzip": {false, func(r *rand.Rand) []byte {
		body := zipped(jsonFlood(r, restBodies["/v2/models/m/infer"], 1<<24))
		return append(restHeader(fmt.Sprintf("Content-Encoding: gzip\r\nContent-Length: %d", len(body))),
			body[:len(body)-1-r.IntN(len(body)-1)]...)
	}},
	"preface": {true, func(r *rand.Rand) []byte { return []byte(http2Preface[:1+r.IntN(len(http2Preface)-1)]) }},
	"frame": {true, func(r *rand.Rand) []byte {
		b := frame([]byte(http2Preface), 4, 0, 0, nil)
		return frame(b, 0, 0, 1, make([]byte, 1000))[:len(b)+1+r.IntN(1000)]
	}},
	"many headers": {false, func(r *rand.Rand) []byte {
		return []byte("GET / HTTP/1.1\r\nX-A: " + strings.Repeat("a", 1<<r.IntN(16)))
	}},
	"short headers": {false, func(r *rand.Rand) []byte {
		b := []byte("POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n")
		for i := range r.IntN(10_000) {
			b = fmt.Appendf(b, "%x:\n", 4096+i)
		}
		return append(b, []string{"", "\r\n"}[r.IntN(2)]...)
	}},
	"short headers of calls": {true, func(r *rand.Rand) []byte {
		b := frame(frame([]byte(http2Preface), 4, 0, 0, nil), 1, 0, 1, field(nil, ":method", "POST"))
		var block []byte
		for i := range r.IntN(1500) {
			block = field(block, fmt.Sprintf("%x", 4096+i), "")
		}
		return frame(b, 9, 0, 1, block)
	}},
	"responses that grow": {false, func(r *rand.Rand) []byte {
		path, body := "/v2/models/w/infer", `{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}],`+
			`"outputs":[{"name":"y","parameters":{"classification":1000000}}]}`
		if r.IntN(2) == 0 {
			path, body = "/v2/models/s/infer", `{"inputs":[{"name":"x","shape":[1,2],"datatype":"BYTES","data":["a","`+
				strings.Repeat(`\u0001`, 1<<r.IntN(22))+`"]}]}`
		}
		return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"+
			"Connection: close\r\nContent-Length: %d\r\n\r\n%s", path, token, len(body), body)
	}},
	"responses": {false, func(r *rand.Rand) []byte {
		body := `{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}],` +
			`"outputs":[{"name":"y","parameters":{"binary_data":true}}]}`
		post := func(more string) string {
			return fmt.Sprintf("POST /v2/models/w/infer HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"+
				"%sContent-Length: %d\r\n\r\n%s", token, more, len(body), body)
		}
		return []byte(strings.Repeat(post("Accept-Encoding: gzip\r\n"), r.IntN(30)) + post("Connection: close\r\n"))
	}},
	"responses without a window": {true, func(r *rand.Rand) []byte {
		b := frame([]byte(http2Preface), 4, 0, 0, []byte{0, 4, 0, 0, 0, 0}) // no window
		m := requestOf("w", []byte{1}, []float32{1})
		encoding := [2]string{"grpc-encoding", []string{"identity", "gzip"}[r.IntN(2)]}
		for i := range uint32(1 + r.IntN(200)) {
			b = frame(open(b, 2*i+1, encoding), 0, 1, 2*i+1, m)
		}
		return b
	}},
	"message": {true, func(r *rand.Rand) []byte { return messages(1, 1+r.IntN(16000)) }},
	"prefix":  {true, func(*rand.Rand) []byte { return messages(1, 0) }},
	"many messages": {true, func(r *rand.Rand) []byte {
		return messages(1+r.IntN(200), 1+r.IntN(16000))
	}},
	"frames of a byte": {true, func(r *rand.Rand) []byte {
		b := messages(1, 1)
		for range r.IntN(10_000) {
			b = frame(b, 0, 0, 1, []byte{0})
		}
		return b
	}},
	"streams that are reset": {true, func(r *rand.Rand) []byte {
		b := frame([]byte(http2Preface), 4, 0, 0, nil)
		for i := range uint32(r.IntN(5000)) {
			b = frame(open(b, 2*i+1), 3, 0, 2*i+1, []byte{0, 0, 0, 8})
		}
		return open(b, 20_001)
	}},
	"fields of the table": {true, func(r *rand.Rand) []byte {
		first, later := tableFields(r)
		b := frame(frame([]byte(http2Preface), 4, 0, 0, nil), 1, 4, 1, first)
		for i := range uint32(r.IntN(249)) {
			b = frame(b, 1, 4, 2*i+3, later)
		}
		return b
	}},
	"headers that go on": {true, func(r *rand.Rand) []byte {
		b := frame(frame([]byte(http2Preface), 4, 0, 0, nil), 1, 0, 1, field(nil, ":method", "POST"))
		for range r.IntN(1000) {
			b = frame(b, 9, 0, 1, field(nil, "a", "b"))
		}
		return b
	}},
}

const http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

func restHeader(more string) []byte {
	return []byte("POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + token +
		"\r\n" + more + "\r\n\r\n")
}

// frame appends a frame of HTTP/2.
func frame(b []byte, kind, flags byte, stream uint32, payload []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload))<<8|uint32(kind))
	b = binary.BigEndian.AppendUint32(append(b, flags), stream)
	return append(b, payload...)
}

// field appends a header field without compression.
func field(b []byte, name, value string) []byte {
	b = append(append(b, 0, byte(len(name))), name...)
	return append(append(b, byte(len(value))), value...)
}

// open appends the headers of a call of ModelInfer, with more of them.
func open(b []byte, stream uint32, more ...[2]string) []byte {
	return begin(b, 4, stream, append(more, [2]string{"authorization", "Bearer " + token})...)
}

// begin appends the headers of a call of ModelInfer without a token.
func begin(b []byte, flags byte, stream uint32, more ...[2]string) []byte {
	return frame(b, 1, flags, stream, callFields(more...))
}

// callFields returns the header fields of a call of ModelInfer, with more of them.
func callFields(more ...[2]string) (block []byte) {
	for _, h := range append([][2]string{{":method", "POST"}, {":scheme", "http"},
		{":path", "/inference.GRPCInferenceService/ModelInfer"}, {":authority", "x"},
		{"content-type", "application/grpc"}, {"te", "trailers"}}, more...) {
		block = field(block, h[0], h[1])
	}
	return block
}

// tableFields returns the headers of a connection's first and of its later calls, half of the cases
// with a token. They have a field again and again, up to or beyond the limit of 16 KiB, mostly as a
// byte that refers to the connection's table (RFC 7541, 6.1 and 6.2.1).
func tableFields(r *rand.Rand) (first, later []byte) {
	name := []string{"x-bin", "x", "grpc-accept-encoding", "user-agent"}[r.IntN(4)]
	size := uint64(4 << r.IntN(10))
	n := int(15_000 << (2 * r.IntN(2)) / (32 + uint64(len(name)) + size))
	var more [][2]string
	if r.IntN(2) == 0 {
		more = [][2]string{{"authorization", "Bearer " + token}}
	}
	later = append(callFields(more...), bytes.Repeat([]byte{0x80 | 62}, n)...)
	first = append(append(callFields(more...), 0x40, byte(len(name))), name...)
	if size < 127 {
		first = append(first, byte(size))
	} else {
		first = binary.AppendUvarint(append(first, 127), size-127)
	}
	first = append(first, bytes.Repeat([]byte{'A'}, int(size))...)
	return append(first, bytes.Repeat([]byte{0x80 | 62}, n-1)...), later
}

// messages returns streams that each begin a message of 1 MiB and send n bytes of it.
func messages(streams, n int) []byte {
	b := frame([]byte(http2Preface), 4, 0, 0, nil)
	for i := range uint32(streams) {
		b = frame(open(b, 2*i+1), 0, 0, 2*i+1, append([]byte{0, 0, 16, 0, 0}, make([]byte, n)...))
	}
	return b
}

func slowTargets(*attack) []string { return slices.Sorted(maps.Keys(unfinished)) }

// trySlow opens up to 200 connections that do not finish a request. Half of the cases go on with a
// byte now and then, a quarter begin to read late. The server ends them in time and answers others
// meanwhile.
func trySlow(a *attack, target string, seed uint64) (*attempt, error) {
	r := rand.New(rand.NewPCG(seed, hash(target)))
	s, err := a.shared()
	if err != nil {
		return nil, err
	}
	kind := unfinished[target]
	address := s.http
	if kind.grpc {
		address = s.grpc
	}
	n, drip, late, sent := 1+r.IntN(200), r.IntN(2) == 0, r.IntN(4) == 0, kind.send(r)
	if len(sent) > 1<<20 {
		n = min(n, 50)
	}
	if target == "responses that grow" {
		n = min(n, 8) // the server computes each for a second
	}
	resetPeak(s.cmd.Process.Pid)
	start, patience := time.Now(), patience()
	closed := make(chan error, n)
	for range n {
		go func() { closed <- hold(address, kind.grpc, sent, drip, late, patience) }()
	}
	time.Sleep(readTimeout / 2)
	meanwhile := s.check()
	left := 0
	for range n {
		if err := <-closed; err != nil {
			left++
		}
	}
	if *verbose {
		fmt.Printf("%s: %d connections of %d bytes, %v, peak %d MiB\n", target, n, len(sent),
			time.Since(start).Round(time.Millisecond), peak(s.cmd.Process.Pid)>>20)
	}
	for _, err := range []error{meanwhile, s.check()} {
		if err != nil {
			a.forget(s)
			return nil, fmt.Errorf("%d connections: %w", n, err)
		}
	}
	if left > 0 {
		return nil, fmt.Errorf("%d of %d connections with an unfinished request of %d bytes are open after %v, "+
			"with --read-timeout %v", left, n, len(sent), patience, readTimeout)
	}
	return &attempt{}, nil
}

// hold sends a request, and waits until the server closes the connection or ends the calls on it.
func hold(address string, grpc bool, request []byte, drip, late bool, patience time.Duration) error {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil // refused
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	go func() {
		for _, err := c.Write(request); err == nil && drip; _, err = c.Write([]byte{0}) {
			time.Sleep(50 * time.Millisecond)
		}
	}()
	if late {
		_ = c.(*net.TCPConn).SetReadBuffer(64 << 10)
		time.Sleep(2 * readTimeout)
	}
	if !grpc {
		_, err = io.Copy(io.Discard, c)
	} else {
		calls := map[uint32]bool{}
		if len(request) > len(http2Preface) {
			sent := strings.NewReader(string(request[len(http2Preface):]))
			_ = frames(sent, func(kind, flags byte, stream uint32) bool {
				if kind == 1 && flags&4 != 0 {
					calls[stream] = true
				} else if kind == 3 {
					delete(calls, stream)
				}
				return true
			})
		}
		err = frames(c, func(kind, flags byte, stream uint32) bool {
			if kind == 3 || kind == 1 && flags&1 != 0 {
				if delete(calls, stream); len(calls) == 0 {
					return false
				}
			}
			return true
		})
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return nil
}

// frames calls f with the kind, flags and stream of each frame of HTTP/2, until f returns false.
func frames(r io.Reader, f func(kind, flags byte, stream uint32) bool) error {
	for {
		var h [9]byte
		if _, err := io.ReadFull(r, h[:]); err != nil {
			return err
		}
		if !f(h[3], h[4], binary.BigEndian.Uint32(h[5:])) {
			return nil
		}
		if _, err := io.CopyN(io.Discard, r, int64(binary.BigEndian.Uint32(h[:])>>8)); err != nil {
			return err
		}
	}
}
