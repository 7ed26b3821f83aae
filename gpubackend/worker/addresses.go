// SPDX-License-Identifier: Apache-2.0

package worker

import "github.com/paracuda/paracuda/gpubackend/proclimit"

// A process can have so many mappings only, and one that gets no more of them ends. Scattered pages
// of a guest take one for each run, what it reserves and maps one or two each. So they are counted.

// places is how many mappings the guest process has in this one, and may have.
type places struct{ used, most int }

// newPlaces leaves a quarter of what a process may have to other uses.
func newPlaces() places { return places{most: proclimit.Mappings() / 4 * 3} }

// take counts n mappings, unless that is too many.
func (p *places) take(n int) bool {
	if n > p.most-p.used {
		return false
	}
	p.used += n
	return true
}

func (p *places) give(n int) { p.used -= n }

// Mappings of the guest's own virtual memory management: what lies in a reservation parts it.
const (
	placesOfReserved = 1
	placesOfMapped   = 2
)

// placesOfShown is what pieces take that are shown in place of others, one of which they may part.
func placesOfShown(pieces int) int { return pieces + 1 }
