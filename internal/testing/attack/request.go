package main

import (
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// wire returns a message of protobuf: numbers of fields with their values, which are integers,
// texts and messages.
func wire(fields ...any) string {
	var b []byte
	for i := 0; i < len(fields); i += 2 {
		n := protowire.Number(fields[i].(int))
		switch v := fields[i+1].(type) {
		case int:
			b = protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), uint64(v))
		case string:
			b = protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), v)
		}
	}
	return string(b)
}

// goodMessages returns the fields of valid requests by call.
func goodMessages(method string) string {
	text, number := wire(3, "a"), wire(2, 1)
	tensor := wire(1, "x", 2, "FP32", 3, "\x01\x02")
	region := wire(4, wire(1, "shared_memory_region", 2, text), 4, wire(1, "shared_memory_byte_size", 2, number))
	switch method {
	case "ModelInfer", "ModelStreamInfer":
		return wire(1, "m", 2, "1", 3, "a", 4, wire(1, "sequence_id", 2, text), 4, wire(1, "priority", 2, number),
			5, tensor+region, 6, wire(1, "y", 2, wire(1, "classification", 2, number)),
			6, wire(1, "y", 2, wire(1, "binary_data", 2, text)), 7, "12345678")
	case "RepositoryModelLoad", "RepositoryModelUnload":
		return wire(1, "", 2, "m", 3, wire(1, "config", 2, wire(3, "{}")),
			3, wire(1, "unload_dependents", 2, wire(1, 1)))
	case "SystemSharedMemoryRegister":
		return wire(1, "r", 2, "/k", 3, 0, 4, 1)
	case "CudaSharedMemoryRegister":
		return wire(1, "r", 2, "handle", 3, 0, 4, 1)
	case "TraceSetting":
		return wire(1, wire(1, "trace_level", 2, wire(1, "TIMESTAMPS")), 2, "m")
	case "LogSettings":
		return wire(1, wire(1, "log_format", 2, wire(3, "default")), 1, wire(1, "log_verbose_level", 2, wire(2, 1)))
	case "Embed", "EmbedStream":
		return wire(1, "a", 2, 1, 3, 1, 5, "p", 6, 1)
	case "EmbedSparse", "EmbedAll", "EmbedAllStream", "Tokenize", "TokenizeStream":
		return wire(1, "a", 2, 1, 3, 1, 4, "p")
	case "Rerank", "RerankStream":
		return wire(1, "a", 2, "b", 2, "c", 3, 1)
	default: // calls that name a model or region, and texts
		return wire(1, "m", 2, "1")
	}
}

// requestFlood returns a request of a call that is valid except for one part, of about n bytes.
func requestFlood(r *rand.Rand, method string, n int) []byte {
	return grow(r, []byte(goodMessages(method)), n)
}

// grow replaces a part of a message by one of about n bytes: a long text, or many elements.
func grow(r *rand.Rand, message []byte, n int) (b []byte) {
	type field struct {
		tag   protowire.Number
		whole []byte
		text  []byte // nil: a number
	}
	var fields []field
	for rest := message; len(rest) > 0; {
		tag, kind, size := protowire.ConsumeField(rest)
		if size < 0 {
			return nil
		}
		f := field{tag: tag, whole: rest[:size]}
		if kind == protowire.BytesType {
			_, _, k := protowire.ConsumeTag(rest)
			f.text, _ = protowire.ConsumeBytes(rest[k:])
		}
		fields, rest = append(fields, f), rest[size:]
	}
	if len(fields) == 0 {
		return nil
	}
	at := r.IntN(len(fields))
	for i, f := range fields {
		if i != at {
			b = append(b, f.whole...)
			continue
		}
		bytesOf := func(v []byte) { b = protowire.AppendBytes(protowire.AppendTag(b, f.tag, protowire.BytesType), v) }
		nested := grow(r, f.text, n) // nil for most texts that are no messages
		switch k := r.IntN(8); {
		case len(nested) > 0 && k < 5:
			bytesOf(nested)
		case f.text == nil:
			number := []uint64{0, 1 << 31, 1<<63 - 1, 1 << 63, 1<<64 - 1}[r.IntN(5)]
			b = protowire.AppendVarint(protowire.AppendTag(b, f.tag, protowire.VarintType), number)
		case k < 6:
			c := []string{"a", "\x01", "\x01", `"`}[r.IntN(4)] // escapes are longer
			bytesOf([]byte(strings.Repeat(c, n/len(c))))
		case k == 6: // the keys of a map differ
			for i := 0; i < min(n, 4<<20); i += 8 {
				bytesOf([]byte(wire(1, strconv.Itoa(i))))
			}
		default:
			for range max(1, n/len(f.whole)) {
				b = append(b, f.whole...)
			}
		}
	}
	return b
}

// framed appends a message of gRPC with its prefix.
func framed(body, m []byte, compressed bool) []byte {
	flag := byte(0)
	if compressed {
		flag = 1
	}
	return append(binary.BigEndian.AppendUint32(append(body, flag), uint32(len(m))), m...)
}
