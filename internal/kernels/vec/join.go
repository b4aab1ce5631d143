package vec

import "github.com/onward-ml/onward/internal/cpu"

// JoinGroupsF32 sets the pixels of dst, of 16 channels, to four channels of each part, or to zeros
// for a part that is nil. The pixels of the parts are 16 elements apart, too:
//
//	for p := 0; p < len(dst); p += 16 {
//		for k, part := range parts {
//			copy(dst[p+4*k:][:4], part[p:])
//		}
//	}
func JoinGroupsF32(l cpu.Level, dst []float32, parts *[4][]float32) {
	const lanes, pause = 16, 1 << 14
	for at := 0; at < len(dst); at += pause {
		to := dst[at:min(len(dst), at+pause)]
		if width(l) == 0 || l == cpu.NEON {
			joinGroupsGeneric(to, parts, at)
			continue
		}
		var zeros [4]float32
		var from [4]*float32
		var step [4]int
		for k, part := range parts {
			from[k] = &zeros[0]
			if part != nil {
				part = part[at:][:len(to)-lanes+4]
				from[k], step[k] = &part[0], 4*lanes
			}
		}
		joinGroupsF32(&to[0], from[0], step[0], from[1], step[1], from[2], step[2], from[3], step[3], len(to)/lanes)
	}
}

func joinGroupsGeneric(dst []float32, parts *[4][]float32, at int) {
	for k, part := range parts {
		for p := 4 * k; p < len(dst); p += 16 {
			to := (*[4]float32)(dst[p:])
			if part == nil {
				*to = [4]float32{}
			} else {
				*to = *(*[4]float32)(part[at+p-4*k:])
			}
		}
	}
}
