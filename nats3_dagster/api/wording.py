"""Next steps as requests: what the API says for each code of steps.Next, where the plain text does not say it best."""

from nats3_dagster.steps import Next

WORDS = {step: step.value for step in Next}
