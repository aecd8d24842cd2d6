"""`/account`: rules that give each stream of the account an archive."""

from typing import Annotated, Any

from fastapi import APIRouter, BackgroundTasks, Path, Query, Response

from nats3_dagster.api.context import Json, Work
from nats3_dagster.api.json_bodies import JsonRoute
from nats3_dagster.api.routes.store_routes import reload_dagster
from nats3_dagster.api.wording import WORDS
from nats3_dagster.archive.account import rules
from nats3_dagster.archive.account.status import status
from nats3_dagster.bodies.accounts import ChangeAccountRule, CreateAccountRule
from nats3_dagster.bodies.base import Text
from nats3_dagster.documents.accounts import Account, ChangedAccountRule, EndedRule, PlannedRule

router = APIRouter(prefix="/account/rules", tags=["account"], route_class=JsonRoute)
Name = Annotated[Text, Path(description="Name of the rule.", examples=["everything"])]
DryRun = Annotated[bool, Query(description="Say what would happen with each stream, and change nothing.")]


@router.post(
    "",
    status_code=201,
    response_model=PlannedRule,
    responses={200: {"model": PlannedRule, "description": "A preview: nothing was changed."}},
)
def create_account_rule(
    body: CreateAccountRule, work: Work, response: Response, later: BackgroundTasks, dry_run: DryRun = False
) -> Any:
    """Give each stream of the account that the rule takes an archive, also those that come later. `account_sensor`
    makes them. A dry run answers with 200."""
    rule = body.rule()
    with body.named():
        if dry_run:
            streams = rules.preview(work, rule, create_bucket=body.create_bucket)
            response.status_code = 200
            return PlannedRule.of_preview(rule, streams, WORDS)
        kept, streams = rules.create(work, rule, create_bucket=body.create_bucket)
    later.add_task(reload_dagster, work.settings)
    return PlannedRule.of_kept(kept, streams, WORDS)


@router.get("", response_model=list[Account])
def list_account_rules(work: Work) -> Json:
    """All rules, the oldest first, each with the streams of the account."""
    return Json([Account.of(one, WORDS) for one in status(work)])


@router.get("/{name}", response_model=Account)
def get_account_rule(name: Name, work: Work) -> Json:
    """One rule: each stream of the account, its archive, what is not captured yet and how near to loss it is, or why it
    has none."""
    (found,) = status(work, [name])
    return Json(Account.of(found, WORDS))


@router.patch("/{name}", response_model=ChangedAccountRule | PlannedRule)
def change_account_rule(name: Name, body: ChangeAccountRule, work: Work, dry_run: DryRun = False) -> Any:
    """Change a rule; settings of archives are given to those that it has, too."""
    wanted = body.wanted()
    with body.named():
        if dry_run:
            kept, streams = rules.preview_change(work, name, wanted, create_bucket=body.create_bucket)
            return PlannedRule.of_kept(kept, streams, WORDS)
        done = rules.change(work, name, wanted, create_bucket=body.create_bucket)
    return ChangedAccountRule.of_change(done, WORDS)


@router.delete("/{name}", response_model=EndedRule)
def delete_account_rule(name: Name, work: Work, later: BackgroundTasks) -> Json:
    """End a rule. Its archives stay, and go on as they are."""
    ended = EndedRule(name=name, archives=rules.end(work, name))
    later.add_task(reload_dagster, work.settings)
    return Json(ended)
