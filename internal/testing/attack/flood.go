package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"time"
)

// floods lists what a client of gRPC sends again and again: the n-th frame of a connection.
var floods = map[string]func(r *rand.Rand) func(n uint32) []byte{
	"pings":      func(*rand.Rand) func(uint32) []byte { return same(6, 0, 0, make([]byte, 8)) },
	"pongs":      func(*rand.Rand) func(uint32) []byte { return same(6, 1, 0, make([]byte, 8)) },
	"windows":    func(r *rand.Rand) func(uint32) []byte { return same(8, 0, uint32(r.IntN(2)), []byte{0, 0, 0, 1}) },
	"resets":     func(*rand.Rand) func(uint32) []byte { return same(3, 0, 1, []byte{0, 0, 0, 8}) },
	"priorities": func(*rand.Rand) func(uint32) []byte { return same(2, 0, 3, make([]byte, 5)) },
	"goodbyes":   func(r *rand.Rand) func(uint32) []byte { return same(7, 0, 0, make([]byte, 8+r.IntN(1000))) },
	"no data":    func(*rand.Rand) func(uint32) []byte { return same(0, 0, 1, nil) },
	"unknown kind": func(r *rand.Rand) func(uint32) []byte {
		return same(99, 0, 0, make([]byte, r.IntN(1<<14)))
	},
	"settings": func(r *rand.Rand) func(uint32) []byte {
		return same(4, 0, 0, bytes.Repeat([]byte{0, 4, 0, 0, 255, 255}, r.IntN(1<<7)))
	},
	"headers that go on": func(*rand.Rand) func(uint32) []byte { return same(9, 0, 1_000_001, nil) },
	"fields of the table": func(r *rand.Rand) func(uint32) []byte {
		flags := byte(4 | r.IntN(2))
		first, later := tableFields(r)
		return func(n uint32) []byte {
			if n == 0 {
				return frame(nil, 1, flags, 1_000_003, first)
			}
			return frame(nil, 1, flags, 1_000_003+2*n, later)
		}
	},
}

// same returns a frame that is the same each time.
func same(kind, flags byte, stream uint32, payload []byte) func(uint32) []byte {
	b := frame(nil, kind, flags, stream, payload)
	return func(uint32) []byte { return b }
}

// tryFlood opens up to 200 connections that send frames for three seconds, after calls without a
// token, or with responses of 10 MiB. Half of the cases read nothing. The server keeps its memory
// and answers others meanwhile.
func tryFlood(a *attack, target string, seed uint64) (*attempt, error) {
	r := rand.New(rand.NewPCG(seed, hash(target)))
	s, err := a.shared()
	if err != nil {
		return nil, err
	}
	first := frame([]byte(http2Preface), 4, 0, 0, []byte{0, 4, 127, 255, 255, 255})
	first = frame(first, 8, 0, 0, []byte{127, 0, 0, 0})
	if r.IntN(2) == 0 {
		for i := range uint32(r.IntN(50_000)) {
			first = begin(first, 4|1, 2*i+1)
		}
	} else {
		m := requestOf("w", []byte{1}, []float32{1})
		for i := range uint32(10) {
			first = frame(open(first, 2*i+1), 0, 1, 2*i+1, m)
		}
	}
	if target == "headers that go on" {
		first = begin(first, 0, 1_000_001)
	}
	n, deaf := 1+r.IntN(200), r.IntN(2) == 0
	again, batch := floods[target](r), 1+r.IntN(1000)
	resetPeak(s.cmd.Process.Pid)
	ended := make(chan int, n)
	for range n {
		go func() { ended <- pour(s.grpc, first, again, batch, deaf) }()
	}
	time.Sleep(2 * time.Second)
	meanwhile := s.check()
	sent := 0
	for range n {
		sent += <-ended
	}
	if *verbose {
		fmt.Printf("%s: %d connections, %d bytes first, deaf %v, %d MiB sent, peak %d MiB\n", target, n, len(first),
			deaf, sent>>20, peak(s.cmd.Process.Pid)>>20)
	}
	for _, err := range []error{meanwhile, s.check()} {
		if err != nil {
			a.forget(s)
			return nil, fmt.Errorf("%d connections: %w", n, err)
		}
	}
	return &attempt{}, nil
}

// pour sends first, and then frames, a batch in each write, until the server closes the connection
// or three seconds are over. It returns the number of bytes.
func pour(address string, first []byte, again func(n uint32) []byte, batch int, deaf bool) (sent int) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return 0
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(3 * time.Second))
	if deaf {
		_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
	} else {
		go func() {
			b := make([]byte, 64<<10)
			for err := error(nil); err == nil; _, err = c.Read(b) {
			}
		}()
	}
	sent, err = c.Write(first)
	for n := uint32(0); err == nil; {
		var b []byte
		for range batch {
			b = append(b, again(n)...)
			n++
		}
		k := 0
		k, err = c.Write(b)
		sent += k
	}
	return sent
}
