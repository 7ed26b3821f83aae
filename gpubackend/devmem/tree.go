// SPDX-License-Identifier: Apache-2.0

package devmem

// A key orders the nodes of a tree, by hi first.
type key struct{ hi, lo uint64 }

func (k key) less(o key) bool { return k.hi < o.hi || k.hi == o.hi && k.lo < o.lo }

// priority is a hash of the key, so that the shape of a tree depends only on its keys.
func (k key) priority() uint64 {
	x := k.hi*0x9e3779b97f4a7c15 ^ k.lo
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// tree is an ordered map: a treap, a search tree by key and a heap by priority. The zero value is
// empty.
type tree[V any] struct {
	root *node[V]
	size int
}

type node[V any] struct {
	key         key
	value       V
	priority    uint64
	left, right *node[V]
}

// insert adds k, which must not be there.
func (t *tree[V]) insert(k key, v V) {
	n := &node[V]{key: k, value: v, priority: k.priority()}
	at := &t.root
	for *at != nil && (*at).priority >= n.priority {
		if k.less((*at).key) {
			at = &(*at).left
		} else {
			at = &(*at).right
		}
	}
	n.left, n.right = split(*at, k)
	*at = n
	t.size++
}

// split cuts a tree into the keys below k and the others.
func split[V any](n *node[V], k key) (low, high *node[V]) {
	if n == nil {
		return nil, nil
	}
	if n.key.less(k) {
		n.right, high = split(n.right, k)
		return n, high
	}
	low, n.left = split(n.left, k)
	return low, n
}

// remove deletes k if it is there.
func (t *tree[V]) remove(k key) {
	at := &t.root
	for *at != nil && (*at).key != k {
		if k.less((*at).key) {
			at = &(*at).left
		} else {
			at = &(*at).right
		}
	}
	if *at == nil {
		return
	}
	*at = merge((*at).left, (*at).right)
	t.size--
}

// merge joins two trees, all keys of low being below those of high.
func merge[V any](low, high *node[V]) *node[V] {
	switch {
	case low == nil:
		return high
	case high == nil:
		return low
	case low.priority >= high.priority:
		low.right = merge(low.right, high)
		return low
	}
	high.left = merge(low, high.left)
	return high
}

// floor returns the node with the largest key that is not above k, or nil.
func (t *tree[V]) floor(k key) *node[V] {
	var best *node[V]
	for n := t.root; n != nil; {
		if k.less(n.key) {
			n = n.left
		} else {
			best, n = n, n.right
		}
	}
	return best
}

// ceiling returns the node with the smallest key that is not below k, or nil.
func (t *tree[V]) ceiling(k key) *node[V] {
	var best *node[V]
	for n := t.root; n != nil; {
		if n.key.less(k) {
			n = n.right
		} else {
			best, n = n, n.left
		}
	}
	return best
}

// each calls f for all nodes in the order of their keys.
func (n *node[V]) each(f func(*node[V])) {
	if n != nil {
		n.left.each(f)
		f(n)
		n.right.each(f)
	}
}

// eachIn calls f for the nodes whose keys' hi is in [low, high), in their order.
func (n *node[V]) eachIn(low, high uint64, f func(*node[V])) {
	if n == nil {
		return
	}
	if n.key.hi >= low {
		n.left.eachIn(low, high, f)
		if n.key.hi < high {
			f(n)
		}
	}
	if n.key.hi < high {
		n.right.eachIn(low, high, f)
	}
}
