package saga

import (
	"berth/api"
	"berth/zone/estimate"
)

// cause is why an owner gets nothing: a code for programs, and a sentence without it.
type cause struct {
	code api.Code
	text string
}

// adviseToPreempt returns the end of a sentence about what a firm boot lacks: that it would
// have got it with Request.Preempt from this zone's own hosts; "" if not.
func (r *run) adviseToPreempt(req *api.Request, p *estimate.Plan) string {
	room, more := r.s.estimator.RoomWithPreempt(r.s.zone.View(), req, p)
	if !more || r.describeShortfall(room) != "" {
		return ""
	}
	return "; with preempt, preemptible instances would make room for it"
}

// unreachedCause returns why an owner came out short, with the zones that could not be asked
// or did not answer: they may have had room.
func unreachedCause(short string, p *estimate.Plan) cause {
	why := cause{api.CodeNoCapacity, short + p.DescribeUnreached()}
	switch {
	case len(p.Silent()) > 0:
		why.code = api.CodeUnreached
		why.text += "; repeat the request"
	case len(p.Paused()) > 0:
		why.code = api.CodePaused
	}
	return why
}

// refusedPlan returns why an owner gets nothing whose plan was taken up and came out short.
func refusedPlan(short string, why api.Code) cause {
	if short == "" {
		return cause{}
	}
	switch why { //nolint:exhaustive // the others add nothing to what is lacking
	case api.CodePlanRefused:
		return cause{why, short + "; a zone refused its part of the plan, which had expired or was used before: select again"}
	case api.CodePaused:
		return cause{why, short + "; a zone of the plan takes no new work: select again"}
	case api.CodeTimeout:
		return cause{api.CodeUnreached, short + "; a zone of the plan did not answer in time: select again"}
	case api.CodeContended:
		return cause{why, short + "; others that are not decided yet hold the room: select again"}
	case api.CodeOverQuota:
		return cause{api.CodeNoCapacity, short + "; a zone of the plan lends its parent no more: select again"}
	}
	return cause{api.CodeNoCapacity, short}
}
