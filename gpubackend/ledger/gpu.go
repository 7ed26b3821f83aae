// SPDX-License-Identifier: Apache-2.0

package ledger

// Kind is what memory is for.
type Kind int

// The kinds. docs/reference.md says what each counts.
const (
	Window   Kind = iota // what cuMemAlloc and pools are served from
	Mapped               // cuMemCreate, and what is imported
	Graphs               // what graphs allocate
	Arrays               // arrays and mipmaps
	Code                 // variables of modules and libraries
	Limits               // stacks, the heap of kernels, the buffer of printf
	Contexts             // contexts themselves
	Staging              // what copies pass through
	kinds
)

// Kinds is how many kinds there are.
const Kinds = int(kinds)

// Names are the kinds' names in JSON, and the name of what the driver has besides them.
var Names = [Kinds]string{
	"window", "mapped", "graphs", "arrays", "code", "limits", "contexts", "staging",
}

// OtherName is the name of what a process has, according to the driver, beyond what it took.
const OtherName = "other"

// GPU is a page's section of one GPU. Many goroutines may use it.
type GPU struct {
	id, bound, room *word
	taken, context  *word
	lines           []byte // of the entries
	at              int    // in the page
}

// entry is what one process holds.
type entry []byte

func (s entry) pid() *word        { return wordAt(s, pidAt) }
func (s entry) other() *word      { return wordAt(s, otherAt) }
func (s entry) peak() *word       { return wordAt(s, peakAt) }
func (s entry) kind(k Kind) *word { return wordAt(s, kindsAt+8*int(k)) }

// newGPU returns the section at an offset of a page.
func newGPU(mem []byte, at int) *GPU {
	return &GPU{
		id: wordAt(mem, at+idAt), bound: wordAt(mem, boundAt), taken: wordAt(mem, at+takenAt),
		room:    wordAt(mem, roomAt),
		context: wordAt(mem, at+contextAt), lines: mem[at+lineBytes : at+sectionBytes], at: at,
	}
}

func (g *GPU) entry(i int) entry { return g.lines[i*lineBytes : (i+1)*lineBytes] }

// ID is the GPU's id.
func (g *GPU) ID() uint64 { return g.id.Load() }

// Bound is what the VM may have; 0 is no bound.
func (g *GPU) Bound() uint64 { return g.bound.Load() }

// Taken is what all processes of the VM hold.
func (g *GPU) Taken() uint64 { return g.taken.Load() }

// Context is what a context takes, as far as is known; 0 if it isn't.
func (g *GPU) Context() uint64 { return g.context.Load() }

// SetContext says what a context takes.
func (g *GPU) SetContext(bytes uint64) { g.context.Store(bytes) }

// take adds to the sum, if bound and room allow it. short says that the bound allows it, but room
// doesn't. Only kinds that can be asked for again need room; the others are small.
func (g *GPU) take(k Kind, bytes uint64) (ok, short bool) {
	for {
		had := g.taken.Load()
		if exceeds(had, bytes, g.bound.Load()) {
			return false, false
		}
		if (k == Window || k == Mapped) && exceeds(had, bytes, g.room.Load()) {
			return false, true
		}
		if g.taken.CompareAndSwap(had, had+bytes) {
			return true, false
		}
	}
}

// exceeds says whether bytes more would be above a bound; 0 is no bound.
func exceeds(had, more, bound uint64) bool {
	return bound != 0 && (more > bound || had > bound-more)
}

// give subtracts from a sum, or from what an entry holds, which a lie may have made smaller.
func give(from *word, bytes uint64) {
	for {
		had := from.Load()
		if from.CompareAndSwap(had, had-min(had, bytes)) {
			return
		}
	}
}

// Holding is a reading of what a process holds.
type Holding struct {
	PID   int32 // in the guest; 0 if it isn't a guest process's
	Kinds [Kinds]uint64
	Other uint64 // what the driver has for it beyond that
}

// Took is what the process has taken itself.
func (h *Holding) Took() (sum uint64) {
	for _, n := range h.Kinds {
		sum += n
	}
	return sum
}

// Sum is all that the process holds.
func (h *Holding) Sum() uint64 { return h.Took() + h.Other }

// Map is the holding by the names of the kinds, without kinds that are 0.
func (h *Holding) Map() map[string]uint64 {
	m := make(map[string]uint64)
	for k, n := range h.Kinds {
		if n != 0 {
			m[Names[k]] = n
		}
	}
	if h.Other != 0 {
		m[OtherName] = h.Other
	}
	return m
}

// Add adds up holdings.
func (h *Holding) Add(other Holding) {
	for k, n := range other.Kinds {
		h.Kinds[k] += n
	}
	h.Other += other.Other
}

// Holding reads an entry.
func (g *GPU) Holding(entry int) Holding {
	s := g.entry(entry)
	h := Holding{PID: int32(uint32(s.pid().Load())), Other: s.other().Load()}
	for k := range h.Kinds {
		h.Kinds[k] = s.kind(Kind(k)).Load()
	}
	return h
}
