// SPDX-License-Identifier: Apache-2.0

package lanes

// Logic on predicates, all lanes at once.

// SetPred stores the bits of value in m.
func SetPred(d *uint32, m, value uint32) { *d = *d&^m | value&m }

// PredNot inverts a predicate.
func PredNot(r Registers, o *Operands, m uint32) { SetPred(r.Pred(o.D), m, ^*r.Pred(o.A)) }

// PredMov copies one.
func PredMov(r Registers, o *Operands, m uint32) { SetPred(r.Pred(o.D), m, *r.Pred(o.A)) }

func predAnd(r Registers, o *Operands, m uint32) {
	SetPred(r.Pred(o.D), m, *r.Pred(o.A)&*r.Pred(o.B))
}

func predOr(r Registers, o *Operands, m uint32) {
	SetPred(r.Pred(o.D), m, *r.Pred(o.A)|*r.Pred(o.B))
}

func predXor(r Registers, o *Operands, m uint32) {
	SetPred(r.Pred(o.D), m, *r.Pred(o.A)^*r.Pred(o.B))
}

// PredLogic are the operations by which predicates are combined.
var PredLogic = map[string]Func{"and": predAnd, "or": predOr, "xor": predXor}
