package figures

// causes finds out why the devices were idle.
func (c *collector) causes() {
	for i := range c.f.GPUs {
		g := &c.f.GPUs[i]
		if len(g.Idle) == 0 {
			continue
		}
		endless, ready, syntheses := cursor{in: &c.devices[*g.Ordinal].endless.intervals}, cursor{in: &c.ready}, cursor{in: &c.synthesizing.intervals}
		for j := range g.Idle {
			idle := &g.Idle[j]
			// By the rules of the span contract, what the pipeline does just
			// after it falls idle is the cause. What happened at one instant
			// counts as done together.
			switch at := idle.StartMS; {
			case endless.open(at):
				idle.Cause = UnknownCause // it may have been busy
			case ready.open(at):
				idle.Cause = Handoff
			case syntheses.open(at):
				idle.Cause = Synthesizing
			case c.startless:
				idle.Cause = UnknownCause // one may have been synthesized
			default:
				idle.Cause = NoWork
			}
		}
	}
}
