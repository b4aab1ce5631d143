package main

import (
	"fmt"
	"strings"
	"testing"
)

// The bytes are those of LLVM's assembler, of which the displacements are wider here.
func TestAMXEncoding(t *testing.T) {
	for _, c := range []struct {
		emit func(g *fn)
		want string
	}{
		{func(g *fn) { g.tileConfig("DX") }, "c4 e2 78 49 42 00"},
		{func(g *fn) { g.tileConfig("R11") }, "c4 c2 78 49 43 00"},
		{func(g *fn) { g.tileRelease() }, "c4 e2 78 49 c0"},
		{func(g *fn) { g.tileZero(3) }, "c4 e2 7b 49 d8"},
		{func(g *fn) { g.tileLoad(0x81264, "DI", "R9", 7) }, "c4 a2 7b 4b bc 0f 64 12 08 00"},
		{func(g *fn) { g.tileLoad(2048, "AX", "R8", 4) }, "c4 a2 7b 4b a4 00 00 08 00 00"},
		{func(g *fn) { g.tileStore(2, 0x81264, "R15", "BX") }, "c4 c2 7a 4b 94 1f 64 12 08 00"},
		{func(g *fn) { g.tileDotU8S8(6, 4, 1) }, "c4 e2 49 5e cc"},
		{func(g *fn) { g.tileDotBF16(7, 5, 3) }, "c4 e2 42 5c dd"},
		{func(g *fn) { g.dotBF16(4, "SI", 16, 3) }, "62 f2 7e 50 52 5e 01"},
		{func(g *fn) { g.dotBF16(508, "R9", 5, 29) }, "62 42 56 58 52 69 7f"},
		{func(g *fn) { g.dotRegistersBF16(1, 0, 31) }, "62 62 76 48 52 f8"},
		{func(g *fn) { g.dotRegistersBF16(17, 22, 9) }, "62 32 76 40 52 ce"},
		{func(g *fn) { g.convertBF16(3, 2, 1) }, "62 f2 67 48 72 ca"},
	} {
		g := newFile("amx").function("f", avx512, nil, nil)
		g.body.Reset()
		c.emit(g)
		var got []string
		text, code, _ := strings.Cut(g.body.String(), "*/")
		for _, f := range strings.Fields(code) {
			if h, ok := strings.CutPrefix(strings.TrimSuffix(f, ";"), "$0x"); ok {
				got = append(got, h)
			}
		}
		if s := fmt.Sprint(strings.Join(got, " ")); s != c.want {
			t.Errorf("%s: %s, want %s", text, s, c.want)
		}
	}
}
