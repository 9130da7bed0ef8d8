// Package facts is the data that one node gives of itself: what commands said,
// what files held, what paths are. It holds no opinion; package checks does.
//
// Facts are kept raw, so that the same facts can be judged again elsewhere and
// later. A thing that was looked for and not found is a fact of its own, and
// differs from a thing nobody looked for, which is simply absent.
package facts
