// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"regexp"
	"strings"
)

// acronyms keep their capitals in Go.
var acronyms = map[string]bool{
	"API": true, "CDP": true, "CPU": true, "CTA": true, "CUDA": true, "DMA": true, "ECC": true,
	"EQ":   true,
	"FIFO": true, "FMA": true, "GPU": true, "HW": true, "ID": true, "IPC": true, "JIT": true,
	"KMT": true, "MPS": true, "NUMA": true, "PC": true, "PCI": true, "PTX": true, "RDMA": true,
	"RPC": true, "SM": true, "SRGB": true, "TCC": true, "VMM": true,
}

// dimension is the D of 1D, 2D and 3D in a word.
var dimension = regexp.MustCompile(`(\d)d($|[a-z]*$)`)

// constantName is a name of capitals and underlines in Go: MAX_GRID_DIM_X is MaxGridDimX.
func constantName(name string) string {
	var b strings.Builder
	for _, w := range strings.Split(name, "_") {
		switch {
		case w == "":
		case acronyms[w]:
			b.WriteString(w)
		default:
			b.WriteString(dimension.ReplaceAllString(w[:1]+strings.ToLower(w[1:]), "${1}D$2"))
		}
	}
	return b.String()
}

// structName is the name of a structure in Go: CUDA_MEMCPY3D is Memcpy3D, CUmemLocation is
// MemLocation.
func structName(name string) string {
	if rest, ok := strings.CutPrefix(name, "CUDA_"); ok {
		rest, version, _ := strings.Cut(rest, "_v")
		name = constantName(rest)
		if version != "" {
			name += "V" + version
		}
		return name
	}
	return capital(strings.TrimPrefix(name, "CU"))
}

// fieldName is the name of a field in Go: the name of the header with a capital, after the names of
// the structures around it.
func fieldName(path string) string {
	var b strings.Builder
	for _, part := range strings.Split(path, ".") {
		for _, w := range strings.Split(part, "_") {
			if w == "id" {
				w = "ID"
			}
			b.WriteString(capital(w))
		}
	}
	return b.String()
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// cutPrefix is strings.CutPrefix for a whole word: what follows must begin with a capital.
func cutPrefix(name, prefix string) (string, bool) {
	rest, ok := strings.CutPrefix(name, prefix)
	return rest, ok && rest != "" && rest[:1] == strings.ToUpper(rest[:1])
}
