// Command mca predicts the speed of the arm64 kernels with LLVM's machine-code analyser, for
// processors that are not at hand. It compiles the packages of the kernels, takes the longest
// innermost loop of each kernel, and prints the cycles of an iteration and the share of the
// multiply-add peak. Operands are assumed in the first-level cache.
//
//	go run ./bench/mca -markdown docs/performance-arm64.md
//
// It needs llvm-mc and llvm-mca 17 or later; -suffix names a version, such as -22 for llvm-mca-22.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/onward-ml/onward/internal/atomicfile"
)

// kernel is a kernel whose longest loop is analysed. multiply is the instruction that
// limits it, or "".
type kernel struct{ pkg, symbol, label, multiply string }

var kernels = []kernel{
	{"gemm", "tile6x16F32NEON", "GEMM float32, 6×16", "fmla"},
	{"gemm", "tile1x16F32NEON", "GEMM float32, 1×16", "fmla"},
	{"gemm", "dots8BF16", "GEMM bfloat16, 8×8, FEAT_BF16: 32 of K", "bfmmla"},
	{"gemm", "dots1BF16", "GEMM bfloat16, 1×32, FEAT_BF16: 32 of K", "bfmmla"},
	{"quant", "tile6x16S8DOT", "GEMM int8, 6×16", "sdot"},
	{"quant", "tile1x16S8DOT", "GEMM int8, 1×16", "sdot"},
	{"quant", "tile6x16S8Matrix", "GEMM int8, 6×16, FEAT_I8MM: 8 of K", "smmla"},
	{"conv", "tile6x16NEON", "convolution float32, 6×16", "fmla"},
	{"conv", "byteTile6x16SDOT", "convolution int8, 6×16", "sdot"},
	{"conv", "byteTile6x16Matrix", "convolution uint8, 6×16, FEAT_I8MM: 8 of K", "usmmla"},
	{"conv", "channelTile4NEON", "depthwise convolution uint8, 4×16", "smlal2?"},
	{"quant", "nbits45x16SDOT", "4-bit blocks, 5×16", "sdot"},
	{"quant", "nbits41x16SDOT", "4-bit blocks, 1×16", "sdot"},
	{"quant", "nbits85x16SDOT", "8-bit blocks, 5×16", "sdot"},
	{"quant", "nbits81x16SDOT", "8-bit blocks, 1×16", "sdot"},
	{"quant", "nbitsVector4NEON", "4-bit blocks by float32, 1×16", "fmla"},
	{"conv", "winogradInput4NEON", "Winograd F(4×4, 3×3), input of 4 channels", ""},
	{"conv", "winogradOutput4NEON", "Winograd F(4×4, 3×3), output of 4 channels", ""},
	{"quant", "digitBytesNEON", "digits of 16 elements for block weights", ""},
	{"quant", "requantizeI32NEON", "requantization of 16 sums", ""},
	{"quant", "addBytesNEON", "QLinearAdd of 16 bytes", ""},
	{"quant", "quantizeF32NEON", "QuantizeLinear of 16 numbers", ""},
	{"quant", "maxWindow1NEON", "MaxPool of 16 bytes, one element of the window", ""},
}

// processor is a model of LLVM. pipes is the number of multiply-adds of 128 bits that it starts in
// a cycle. matrix is set if the processor has FEAT_I8MM and FEAT_BF16.
type processor struct {
	name, label string
	pipes       float64
	matrix      bool
}

var processors = []processor{{"neoverse-n1", "Neoverse N1", 2, false}, {"neoverse-v1", "Neoverse V1", 4, true},
	{"neoverse-v2", "Neoverse V2", 4, true}, {"apple-m1", "Apple M1", 3, false}}

// matrix lists the multiplications of FEAT_I8MM and FEAT_BF16.
var matrix = []string{"sudot", "usdot", "smmla", "ummla", "usmmla", "bfmmla"}

const iterations = 200

func main() {
	log.SetFlags(0)
	suffix := flag.String("suffix", "", "ending of the names of LLVM's programs, such as -22")
	out := flag.String("markdown", "", "write the page `FILE` instead of printing it")
	flag.Parse()
	page, err := report(*suffix)
	if err == nil && *out == "" {
		_, err = os.Stdout.WriteString(page)
	} else if err == nil {
		err = atomicfile.WriteBytes(*out, 0o644, []byte(page))
	}
	if err != nil {
		log.Fatal("mca: ", err)
	}
}

func report(suffix string) (string, error) {
	version, err := command(nil, "llvm-mca"+suffix, "--version")
	if err != nil {
		return "", err
	}
	number := regexp.MustCompile(`LLVM version (\d+\.\d+)`).FindStringSubmatch(version)
	if number == nil {
		return "", fmt.Errorf("llvm-mca --version prints no version:\n%s", version)
	}
	dir, err := os.MkdirTemp("", "mca")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	var b strings.Builder
	fmt.Fprintf(&b, header, number[1])
	for _, k := range kernels {
		object := filepath.Join(dir, k.pkg+".test")
		build := exec.Command("go", "test", "-c", "-o", object, "./internal/kernels/"+k.pkg)
		build.Env = append(os.Environ(), "GOARCH=arm64", "GOOS=linux", "CGO_ENABLED=0")
		if o, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("building %s: %w\n%s", k.pkg, err, o)
		}
		text, err := command(nil, "go", "tool", "objdump", "-s", `\.`+k.symbol+`(\.abi0)?$`, object)
		if err != nil {
			return "", err
		}
		loop, err := longestLoop(text)
		if err != nil {
			return "", fmt.Errorf("%s: %w", k.symbol, err)
		}
		asm, err := command([]byte(bytesOf(loop)), "llvm-mc"+suffix, "-triple=aarch64",
			"-mattr=+dotprod,+i8mm,+bf16,+fp16fml", "-disassemble")
		if err != nil {
			return "", err
		}
		n := len(regexp.MustCompile(`(?m)^\s*`+k.multiply+`\s`).FindAllString(asm, -1))
		switch {
		case k.multiply == "":
			fmt.Fprintf(&b, "| %s | |", k.label)
		case n == 0:
			return "", fmt.Errorf("%s: the loop has no %s", k.symbol, k.multiply)
		default:
			fmt.Fprintf(&b, "| %s | %d |", k.label, n)
		}
		for _, p := range processors {
			if slices.Contains(matrix, k.multiply) && !p.matrix {
				b.WriteString(" – |")
				continue
			}
			cycles, err := analyse(suffix, p.name, asm)
			if err != nil {
				return "", fmt.Errorf("%s: %w", k.symbol, err)
			}
			fmt.Fprintf(&b, " %.1f", cycles)
			if k.multiply != "" {
				fmt.Fprintf(&b, ", %.0f %%", 100*float64(n)/(p.pipes*cycles))
			}
			b.WriteString(" |")
		}
		b.WriteByte('\n')
	}
	b.WriteString(footer)
	return b.String(), nil
}

// analyse returns the cycles of an iteration.
func analyse(suffix, processor, asm string) (float64, error) {
	text, err := command([]byte(asm), "llvm-mca"+suffix, "-mtriple=aarch64", "-mattr=+dotprod,+i8mm,+bf16,+fp16fml",
		"-mcpu="+processor, "-iterations="+strconv.Itoa(iterations))
	if err != nil {
		return 0, err
	}
	m := regexp.MustCompile(`Total Cycles:\s+(\d+)`).FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("llvm-mca for %s prints no cycles:\n%s", processor, text)
	}
	n, err := strconv.Atoi(m[1])
	return float64(n) / iterations, err
}

var (
	instruction = regexp.MustCompile(`(?m)^\s+\S+\s+0x([0-9a-f]+)\s+([0-9a-f]{8})\s`)
	errNoLoop   = errors.New("no loop in the disassembly")
)

// longestLoop returns the instructions of the innermost loop that has most of them, from a listing
// of go tool objdump. A loop is what a conditional branch backwards (B.cond) encloses.
func longestLoop(listing string) ([]uint32, error) {
	var longest []uint32
	for _, function := range strings.Split(listing, "TEXT ")[1:] {
		var codes []uint32
		for _, m := range instruction.FindAllStringSubmatch(function, -1) {
			c, err := strconv.ParseUint(m[2], 16, 32)
			if err != nil {
				return nil, err
			}
			codes = append(codes, uint32(c))
		}
		inner := -1 // the end of the last loop: one that begins before it is not innermost
		for i, c := range codes {
			if c>>24 != 0x54 {
				continue
			}
			back := -int(int32(c<<8) >> 13) // imm19, in instructions
			if back <= 0 || back > i {
				continue
			}
			if i-back > inner && back+1 > len(longest) {
				longest = codes[i-back : i+1]
			}
			inner = i
		}
	}
	if longest == nil {
		return nil, errNoLoop
	}
	return longest, nil
}

// bytesOf writes the bytes of instructions for llvm-mc.
func bytesOf(codes []uint32) string {
	var b strings.Builder
	for _, c := range codes {
		fmt.Fprintf(&b, "0x%02x 0x%02x 0x%02x 0x%02x\n", c&0xff, c>>8&0xff, c>>16&0xff, c>>24)
	}
	return b.String()
}

func command(stdin []byte, name string, args ...string) (string, error) {
	c := exec.Command(name, args...)
	c.Stdin = bytes.NewReader(stdin)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(c.Args, " "), err, stderr.Bytes())
	}
	return string(out), nil
}

const header = `# Performance on arm64

**These numbers are predictions**, not measurements on arm64 hardware. ` + "`go run ./bench/mca`" + ` runs LLVM's machine-code analyser
(llvm-mca %s) over the longest innermost loop of each kernel. It models the latencies and execution units of a processor, but no caches.
Each field has the cycles of an iteration and, for GEMM and convolutions, the share of the processor's multiply-add peak.

| loop | multiply-adds of 128 bits | Neoverse N1 | Neoverse V1 | Neoverse V2 | Apple M1 |
|---|---|---|---|---|---|
`

const footer = `
The peaks are two multiply-adds of 128 bits per cycle on Neoverse N1, and four on V1 and V2. LLVM has no model of Apple M1 of its own
and uses that of an older Apple processor (Cyclone), which has three; M1 itself has four. 1×16 is the GEMV tile; in practice, GEMV
waits for memory. A dash means that the processor lacks the instruction.

An instruction of FEAT_I8MM does twice the multiply-adds of SDOT: two iterations of 8 of K replace one SDOT iteration of 16 of K.
One of FEAT_BF16 does four times those of a float32 instruction. Apple's processors have both features from M2 on.
`
