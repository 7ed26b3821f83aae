// SPDX-License-Identifier: Apache-2.0

package ledger

// Process has the accounts of one process. A process that is started ahead of use has them before
// it has an entry; what it takes until then counts once it joins. One goroutine uses it. A nil
// Process has no accounts.
type Process struct {
	page     *Page
	entry    int
	accounts map[uint64]*Account
}

// NewProcess returns a process without a page: nothing bounds what it takes.
func NewProcess() *Process { return &Process{accounts: make(map[uint64]*Account)} }

// Account returns the process's account of a GPU.
func (p *Process) Account(id uint64) *Account {
	if p == nil {
		return nil
	}
	a := p.accounts[id]
	if a == nil {
		a = &Account{}
		p.accounts[id] = a
		p.join(id, a)
	}
	return a
}

// Join gives the process its entry of a page. What it held in another entry of that page moves.
func (p *Process) Join(page *Page, entry int) {
	p.page, p.entry = page, entry
	for id, a := range p.accounts {
		p.join(id, a)
	}
}

// Page is the page that the process has joined; nil for none.
func (p *Process) Page() *Page {
	if p == nil {
		return nil
	}
	return p.page
}

// Short is how many bytes the VM had no room for, if the last Take was refused only for that
// reason; otherwise 0.
func (p *Process) Short() (bytes uint64) {
	if p == nil {
		return 0
	}
	for _, a := range p.accounts {
		bytes = max(bytes, a.short)
		a.short = 0
	}
	return bytes
}

func (p *Process) join(id uint64, a *Account) {
	if p.page == nil {
		return
	}
	if g := p.page.GPU(id); g != nil {
		a.join(g, p.entry)
	} else {
		a.refused = true
	}
}

// Account is what a process holds of one GPU. One goroutine uses it. A nil Account has no bound and
// counts nothing.
type Account struct {
	held    [Kinds]uint64
	gpu     *GPU // nil: counted once there is one
	entry   entry
	refused bool // the page is full of other GPUs
	short   uint64
}

// join counts what is held in an entry. What another entry had of it moves here, and the sum stays.
func (a *Account) join(g *GPU, i int) {
	before := a.entry
	a.gpu, a.entry = g, g.entry(i)
	a.write()
	for k, held := range a.held {
		if before != nil {
			give(before.kind(Kind(k)), held)
		} else {
			g.taken.Add(held)
		}
	}
}

// write writes what is held to the entry, over whatever another process has written there, and
// notes the highest value. No honest process writes to it before this one has ended.
func (a *Account) write() {
	var sum uint64
	for k, held := range a.held {
		if word := a.entry.kind(Kind(k)); word.Load() != held {
			word.Store(held)
		}
		sum += held
	}
	if sum > a.entry.peak().Load() {
		a.entry.peak().Store(sum)
	}
}

// Take takes memory if the VM may have it.
func (a *Account) Take(k Kind, bytes uint64) bool {
	if a == nil {
		return true
	}
	if a.refused {
		return false
	}
	if a.gpu != nil {
		ok, short := a.gpu.take(k, bytes)
		if a.short = 0; short {
			a.short = bytes
		}
		if !ok {
			a.write()
			return false
		}
	}
	a.held[k] += bytes
	if a.gpu != nil {
		a.write()
	}
	return true
}

// Force takes memory that is there already: nobody is asked.
func (a *Account) Force(k Kind, bytes uint64) {
	if a == nil {
		return
	}
	a.held[k] += bytes
	if a.gpu != nil {
		a.gpu.taken.Add(bytes)
		a.write()
	}
}

// Give gives back what was taken.
func (a *Account) Give(k Kind, bytes uint64) {
	if a == nil {
		return
	}
	bytes = min(bytes, a.held[k])
	a.held[k] -= bytes
	if a.gpu != nil {
		a.write()
		give(a.gpu.taken, bytes)
	}
}

// Set sets what is held of a kind, whether or not the VM may have it.
func (a *Account) Set(k Kind, bytes uint64) {
	switch had := a.Held(k); {
	case bytes > had:
		a.Force(k, bytes-had)
	default:
		a.Give(k, had-bytes)
	}
}

// Move changes what memory is for. The sum stays.
func (a *Account) Move(from, to Kind, bytes uint64) {
	if a == nil || from == to {
		return
	}
	bytes = min(bytes, a.held[from])
	a.held[from] -= bytes
	a.held[to] += bytes
	if a.gpu != nil {
		a.write()
	}
}

// Held is what the process holds of a kind.
func (a *Account) Held(k Kind) uint64 {
	if a == nil {
		return 0
	}
	return a.held[k]
}

// Bound is what the VM may have; 0 is no bound.
func (a *Account) Bound() uint64 {
	if a == nil || a.gpu == nil {
		return 0
	}
	return a.gpu.Bound()
}

// Over says whether the VM has more than it may have.
func (a *Account) Over() bool {
	bound := a.Bound()
	return bound != 0 && a.gpu.Taken() > bound
}

// Share returns the VM's bound on a GPU, and how much of it is taken. ok says that there is a
// bound.
func (a *Account) Share() (total, taken uint64, ok bool) {
	if total = a.Bound(); total == 0 {
		return 0, 0, false
	}
	return total, min(total, a.gpu.Taken()), true
}

// Context is how much a context counts for; otherwise is the answer if that isn't known.
func (a *Account) Context(otherwise uint64) uint64 {
	if a != nil && a.gpu != nil {
		if bytes := a.gpu.Context(); bytes != 0 {
			return bytes
		}
	}
	return otherwise
}
