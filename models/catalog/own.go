package catalog

// Own returns what the model's file, and those that it extends, say of an
// engine, without what all models share on it. Layers stand in the order in
// which they apply.
func (e *Entry) Own(engine string) Engine {
	var own Engine
	for _, p := range e.parts[engine] {
		if p.node.kind == KindEngine {
			continue
		}
		x := p.engine
		own.Transfer, own.Shell = firstNonZero(x.Transfer, own.Transfer), firstNonZero(x.Shell, own.Shell)
		own.MixedTP, own.DecodeRestart = firstSet(x.MixedTP, own.MixedTP), firstSet(x.DecodeRestart, own.DecodeRestart)
		if x.Speculative != nil {
			own.Speculative = x.Speculative
		}
		if x.KVOffload != nil {
			if own.KVOffload == nil {
				own.KVOffload = &KVOffload{}
			}
			own.KVOffload.over(x.KVOffload)
		}
		own.Layers = append(own.Layers, x.Layers...)
	}
	return own
}
