// SPDX-License-Identifier: Apache-2.0

package budget

// Account is what one thing, such as a module, has taken from a budget. One goroutine uses it at a
// time. A nil Account has no limit and counts nothing.
type Account struct {
	budget  *Budget
	bytes   uint64
	refused bool
}

// Open begins an account. Close ends it.
func (b *Budget) Open() *Account { return &Account{budget: b} }

// Begin opens a, which isn't open yet, for an account that is part of another struct.
func (a *Account) Begin(b *Budget) { *a = Account{budget: b} }

// Take counts bytes, all or none: the error wraps ErrExceeded.
func (a *Account) Take(bytes uint64) error {
	if a == nil {
		return nil
	}
	if err := a.budget.Take(bytes); err != nil {
		a.refused = true
		return err
	}
	a.bytes += bytes
	return nil
}

// Give gives back a part of what Take counted.
func (a *Account) Give(bytes uint64) {
	if a == nil {
		return
	}
	bytes = min(bytes, a.bytes)
	a.budget.Give(bytes)
	a.bytes -= bytes
}

// Bytes is what the account has at the moment.
func (a *Account) Bytes() uint64 {
	if a == nil {
		return 0
	}
	return a.bytes
}

// Refused tells whether Take has ever refused something.
func (a *Account) Refused() bool { return a != nil && a.refused }

// Sibling opens another account of the same budget.
func (a *Account) Sibling() *Account {
	if a == nil {
		return nil
	}
	return a.budget.Open()
}

// Close gives everything back. The account may then be used again.
func (a *Account) Close() { a.Give(a.Bytes()) }
